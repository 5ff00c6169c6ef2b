/** Type=notify with the real binary: READY after the first sync, watchdog pings, STOPPING at the end, nothing for the tools. */
import { dlopen, ptr } from "bun:ffi";
import { expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { binary, Space, until } from "../cleanup/space.ts";

setDefaultTimeout(60_000);

const libc = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
}).symbols;

test("what systemd hears", async () => {
  const space = await Space.open();
  const fd = libc.socket(1, 2, 0);
  try {
    const path = `${space.dir}/notify`;
    const address = Buffer.concat([Buffer.from([1, 0]), Buffer.from(`${path}\0`)]);
    expect(libc.bind(fd, ptr(address), address.length)).toBe(0);
    const heard: string[] = [];
    const listen = () => {
      const buffer = Buffer.alloc(256);
      for (;;) {
        const length = Number(libc.recv(fd, ptr(buffer), buffer.length, 0x40));
        if (length < 0) return heard;
        heard.push(buffer.toString("utf8", 0, length));
      }
    };
    const log = `${space.dir}/log`;
    const environment = ["env", `NOTIFY_SOCKET=${path}`, "WATCHDOG_USEC=400000"];
    const args = ["--proxy-mode", "nftables", "--manifests", "/dev/null", "--hostname-override", "n"];
    const child = space.start([...environment, binary, ...args], log);
    await until(
      "the watchdog is fed",
      () => listen().includes("WATCHDOG=1"),
      () => readFileSync(log, "utf8"),
    );
    expect(heard[0]).toBe("READY=1");
    expect(readFileSync(log, "utf8")).toContain("Rules are in place");
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
    expect(listen().at(-1)).toBe("STOPPING=1");
  } finally {
    libc.close(fd);
    await space.close();
  }
});
