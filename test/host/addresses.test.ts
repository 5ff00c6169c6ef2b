import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { AddressWatch, type LocalAddress, localAddresses, parseAddresses } from "../../src/host/addresses.ts";
import { recordingLog } from "./log.ts";
import { missing, type Namespace, namespace } from "./namespace.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

describe("parseAddresses", () => {
  test("canonical addresses with their interfaces; odd parts are passed over", () => {
    const links = [
      { ifname: "lo", addr_info: [{ local: "127.0.0.1" }, { local: "0:0:0:0:0:0:0:1" }, {}] },
      { ifname: "ppp0", addr_info: [{ local: "10.0.0.1", address: "10.0.0.2" }, { local: 7 }] },
      { ifname: "bare" },
      {},
    ];
    expect(parseAddresses(JSON.stringify(links))).toEqual([
      { interface: "lo", ip: "127.0.0.1" },
      { interface: "lo", ip: "::1" },
      { interface: "ppp0", ip: "10.0.0.1" },
    ]);
  });

  test.each(["", "BusyBox v1.36", "{}"])("%p is not the format", (text) => {
    expect(parseAddresses(text)).toBeUndefined();
  });
});

test("without a usable ip tool the addresses come from the C library", async () => {
  const seen = async (dir: string) => (await localAddresses({ toolDirs: [dir] })).map(({ ip }) => ip);
  expect(await seen(temporaryDir())).toContain("127.0.0.1");
  expect(await seen(scripts({ ip: "echo 'BusyBox'; exit 1" }))).toContain("127.0.0.1");
});

const reason = missing();
if (reason !== undefined) console.warn(`address kernel tests skipped: ${reason}`);

describe.skipIf(reason !== undefined)("in a namespace", () => {
  let ns: Namespace;
  beforeAll(async () => {
    ns = await namespace();
    await ns.run(["ip", "link", "add", "kp0", "type", "veth", "peer", "name", "kp1"]);
    await ns.run(["ip", "addr", "add", "192.0.2.10/24", "dev", "kp0"]);
  });
  afterAll(() => ns.remove());
  const ips = (list: readonly LocalAddress[]) => list.map(({ ip }) => ip);
  const read = async () => ips(await localAddresses({ toolDirs: [ns.toolDir] }));

  test("interfaces that are down count too", async () => {
    expect(await read()).toEqual(["127.0.0.1", "192.0.2.10", "::1"]);
  });

  /** Calls `change` and resolves with what the watch tells next. */
  async function told(
    pollMs: number,
    toolDir: string,
    change: () => Promise<unknown>,
    events = true,
  ): Promise<string[]> {
    const initial = await localAddresses({ toolDirs: [ns.toolDir] });
    const { promise, resolve } = Promise.withResolvers<string[]>();
    const options = { log: recordingLog(), toolDirs: [toolDir], settleMs: 20, pollMs };
    const watch = new AddressWatch(initial, { ...options, onChange: (list) => resolve(ips(list)) });
    if (events) await monitoring();
    await change();
    const result = await promise;
    watch.close();
    return result;
  }

  /** The monitor needs a moment to subscribe; it is there when its netlink socket joined the address groups. */
  async function monitoring(): Promise<void> {
    for (let i = 0; i < 200; i++) {
      const sockets = await ns.run(["cat", "/proc/net/netlink"]);
      if (sockets.split("\n").some((line) => /^\S+\s+0\s+\d+\s+0*110\s/.test(line) || line.includes("00000110")))
        return;
      await Bun.sleep(10);
    }
  }

  test("addresses that come and go are told of at once", async () => {
    const never = 3_600_000;
    const add = () => ns.run(["ip", "addr", "add", "192.0.2.11/24", "dev", "kp0"]);
    expect(await told(never, ns.toolDir, add)).toEqual(["127.0.0.1", "192.0.2.10", "192.0.2.11", "::1"]);
    const remove = () => ns.run(["ip", "addr", "del", "192.0.2.11/24", "dev", "kp0"]);
    expect(await told(never, ns.toolDir, remove)).toEqual(["127.0.0.1", "192.0.2.10", "::1"]);
  });

  test("the monitor ends with the proxy, even when that is killed", async () => {
    const dir = temporaryDir();
    const real = readFileSync(`${ns.toolDir}/ip`, "utf8").split("\n")[1] ?? "";
    const tools = scripts({ ip: `[ "$2" = monitor ] && echo $$ >${dir}/pid\n${real}` });
    const program = `
      import { AddressWatch } from "${import.meta.dir}/../../src/host/addresses.ts";
      import { recordingLog } from "${import.meta.dir}/log.ts";
      new AddressWatch([], { log: recordingLog(), toolDirs: ["${tools}"], onChange() {} });`;
    const proxy = Bun.spawn([process.execPath, "-e", program], { stdout: "inherit", stderr: "inherit" });
    while (!existsSync(`${dir}/pid`) || !running(readFileSync(`${dir}/pid`, "utf8"), "monitor")) await Bun.sleep(10);
    const pid = readFileSync(`${dir}/pid`, "utf8");
    proxy.kill("SIGKILL");
    await proxy.exited;
    for (let i = 0; i < 300 && running(pid, "monitor"); i++) await Bun.sleep(10);
    expect(running(pid, "monitor")).toBe(false);
  });

  function running(pid: string, word: string): boolean {
    const path = `/proc/${pid.trim()}/cmdline`;
    return existsSync(path) && readFileSync(path, "utf8").split("\0").includes(word);
  }

  test("without events they are found by looking", async () => {
    const real = readFileSync(`${ns.toolDir}/ip`, "utf8").split("\n")[1] ?? "";
    const dir = scripts({ ip: `[ "$2" = monitor ] && exit 1\n${real}` });
    const add = () => ns.run(["ip", "addr", "add", "192.0.2.12/24", "dev", "kp0"]);
    expect(await told(50, dir, add, false)).toEqual(["127.0.0.1", "192.0.2.10", "192.0.2.12", "::1"]);
  });
});
