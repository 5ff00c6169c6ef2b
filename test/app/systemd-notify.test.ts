/** Datagrams as systemd would get them, received on real sockets. */

import { dlopen, ptr } from "bun:ffi";
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createNotifier, startWatchdog, takeNotifyEnvironment } from "../../src/app/systemd-notify.ts";

const folder = mkdtempSync(join(tmpdir(), "kp-notify-"));
const libc = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  recv: { args: ["i32", "ptr", "u64", "i32"], returns: "i64" },
  close: { args: ["i32"], returns: "i32" },
}).symbols;
const fds: number[] = [];
afterAll(() => {
  for (const fd of fds) libc.close(fd);
  rmSync(folder, { recursive: true });
});

/** A bound datagram socket; `name` is the path, with a NUL in front when abstract. Answers what reads one datagram. */
function receiver(name: string): () => string | undefined {
  const fd = libc.socket(1, 2, 0);
  fds.push(fd);
  const address = Buffer.concat([Buffer.from([1, 0]), Buffer.from(name)]);
  if (libc.bind(fd, ptr(address), address.length) !== 0) throw new Error(`cannot bind ${JSON.stringify(name)}`);
  return () => {
    const buffer = Buffer.alloc(256);
    const length = Number(libc.recv(fd, ptr(buffer), buffer.length, 0x40));
    return length < 0 ? undefined : buffer.toString("utf8", 0, length);
  };
}

describe("datagrams arrive", () => {
  const unique = `kp-notify-${process.pid}`;
  test.each([
    ["at a path", join(folder, "notify"), join(folder, "notify")],
    ["at an abstract name", `\0${unique}`, `@${unique}`],
  ])("%s", async (_, bound, socket) => {
    const read = receiver(bound);
    const notifier = await createNotifier(socket, null);
    expect(notifier.way).toBe("socket");
    expect(notifier.send("READY=1")).toBe(true);
    expect(notifier.send("STATUS=zwölf Services\nSTOPPING=1")).toBe(true);
    expect([read(), read(), read()]).toEqual(["READY=1", "STATUS=zwölf Services\nSTOPPING=1", undefined]);
  });

  test("through systemd-notify where there is no library way", async () => {
    const program = Bun.which("systemd-notify");
    if (!program) {
      console.log("skipped: systemd-notify is not installed");
      return;
    }
    const path = join(folder, "program");
    const read = receiver(path);
    const notifier = await createNotifier(path, program, ["libno-such.so"]);
    expect([notifier.way, notifier.send("READY=1\nSTATUS=here")]).toEqual(["systemd-notify", true]);
    let text: string | undefined;
    for (let i = 0; i < 100 && text === undefined; i++) {
      await Bun.sleep(20);
      text = read();
    }
    expect(text?.trim().split("\n").sort()).toEqual(["READY=1", "STATUS=here"]);
  });
});

describe("nothing to send to", () => {
  test("a socket that is not there is false, never an error", async () => {
    const notifier = await createNotifier(join(folder, "absent"), null);
    expect(notifier.send("READY=1")).toBe(false);
  });

  test("no variable", async () => {
    const notifier = await createNotifier(undefined);
    expect([notifier.way, notifier.problem, notifier.send("READY=1")]).toEqual(["none", undefined, false]);
  });

  test.each(["relative/path", "vsock:2:1234", "@", `/${"x".repeat(108)}`])("%p is told", async (socket) => {
    const notifier = await createNotifier(socket, null);
    expect(notifier.way).toBe("none");
    expect(notifier.problem).toContain("NOTIFY_SOCKET");
  });
});

describe("the environment", () => {
  test("is read and emptied", () => {
    const env = { NOTIFY_SOCKET: "/run/x", WATCHDOG_USEC: "3000000", WATCHDOG_PID: "7", PATH: "/bin" };
    expect(takeNotifyEnvironment(env, 7)).toEqual({ socket: "/run/x", watchdogMs: 3000 });
    expect(env as object).toEqual({ PATH: "/bin" });
  });

  test.each([
    [{ WATCHDOG_USEC: "3000000" }, { socket: undefined, watchdogMs: 0 }],
    [
      { NOTIFY_SOCKET: "/x", WATCHDOG_USEC: "3000000", WATCHDOG_PID: "8" },
      { socket: "/x", watchdogMs: 0 },
    ],
    [
      { NOTIFY_SOCKET: "/x", WATCHDOG_USEC: "3000000" },
      { socket: "/x", watchdogMs: 3000 },
    ],
    [
      { NOTIFY_SOCKET: "/x", WATCHDOG_USEC: "-5" },
      { socket: "/x", watchdogMs: 0 },
    ],
    [{ NOTIFY_SOCKET: "" }, { socket: undefined, watchdogMs: 0 }],
  ])("%p is %p", (env, expected) => expect(takeNotifyEnvironment(env, 7)).toEqual(expected));
});

test("the watchdog is fed while alive, and only then", async () => {
  const path = join(folder, "watchdog");
  const read = receiver(path);
  const notifier = await createNotifier(path, null);
  let alive = true;
  const asked = Promise.withResolvers<void>();
  let questions = 0;
  const stop = startWatchdog(notifier, 100, () => {
    questions++;
    if (questions === 2) alive = false;
    if (questions === 4) asked.resolve();
    return alive;
  });
  await asked.promise;
  stop();
  expect([read(), read()]).toEqual(["WATCHDOG=1", undefined]);
});
