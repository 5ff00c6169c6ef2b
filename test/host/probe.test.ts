import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { kernelSupport, probeFamily } from "../../src/host/probe.ts";
import { IPv4, IPv6 } from "../../src/model/family.ts";
import { missing, type Namespace, namespace } from "./namespace.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

/** A /proc whose kernel has IPv6 with so many addresses; undefined: has none. */
function proc(addresses: number | undefined, disabled: 0 | 1): string {
  const root = temporaryDir();
  mkdirSync(`${root}/net`);
  mkdirSync(`${root}/sys/net/ipv6/conf/all`, { recursive: true });
  const line = "fd000000000000000000000000000002 04 40 00 82     eth0\n";
  if (addresses !== undefined) writeFileSync(`${root}/net/if_inet6`, line.repeat(addresses));
  writeFileSync(`${root}/sys/net/ipv6/conf/all/disable_ipv6`, `${disabled}\n`);
  return root;
}

describe("the kernel's IPv6", () => {
  test.each([
    ["present", 1, 0, undefined],
    ["present without any address yet", 0, 0, undefined],
    ["switched off by default, but on for one interface", 1, 1, undefined],
    ["switched off", 0, 1, "IPv6 is switched off (net.ipv6.conf.all.disable_ipv6=1)"],
    ["not there", undefined, 0, "the kernel has no IPv6"],
  ] as const)("%s", (_, addresses, disabled, reason) => {
    const procRoot = proc(addresses, disabled);
    expect(kernelSupport(IPv6, { procRoot })).toEqual(reason === undefined ? { ok: true } : { ok: false, reason });
    expect(kernelSupport(IPv4, { procRoot })).toEqual({ ok: true });
  });
});

describe("the tools", () => {
  const procRoot = proc(1, 0);

  test("ip6tables that fails is a reason, iptables beside it works", async () => {
    const dir = scripts({
      iptables: "exit 0",
      ip6tables: "echo 'cannot initialize: Address family not supported' >&2; exit 3",
    });
    expect(await probeFamily("iptables", IPv4, { procRoot, toolDirs: [dir] })).toEqual({ ok: true });
    expect(await probeFamily("iptables", IPv6, { procRoot, toolDirs: [dir] })).toEqual({
      ok: false,
      reason: "ip6tables (IPv6 probe) failed with exit code 3; cannot initialize: Address family not supported",
    });
  });
});

const reason = missing("nft", "iptables", "ip6tables");
if (reason !== undefined) console.warn(`probe kernel tests skipped: ${reason}`);

describe.skipIf(reason !== undefined)("in a kernel", () => {
  let ns: Namespace;
  beforeAll(async () => {
    ns = await namespace();
  });
  afterAll(() => ns.remove());

  test.each([
    ["iptables", IPv4],
    ["iptables", IPv6],
    ["nftables", IPv4],
    ["nftables", IPv6],
  ] as const)("%s %o works", async (mode, family) => {
    expect(await probeFamily(mode, family, { toolDirs: [ns.toolDir] })).toEqual({ ok: true });
  });

  test("IPv6 switched off in the namespace", async () => {
    const program = `
      import { probeFamily } from "${import.meta.dir}/../../src/host/probe.ts";
      import { IPv6 } from "${import.meta.dir}/../../src/model/family.ts";
      console.log(JSON.stringify(await probeFamily("nftables", IPv6)));`;
    const off = "for f in all default; do echo 1 > /proc/sys/net/ipv6/conf/$f/disable_ipv6; done";
    const args = ["unshare", "-n", "-m", "sh", "-c", `${off}; exec "$@"`, "sh", process.execPath, "-e", program];
    const child = Bun.spawn(args, { stdout: "pipe" });
    expect(JSON.parse(await new Response(child.stdout).text())).toEqual({
      ok: false,
      reason: "IPv6 is switched off (net.ipv6.conf.all.disable_ipv6=1)",
    });
  });
});
