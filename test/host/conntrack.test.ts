import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type CleanUp, ConntrackCleaner } from "../../src/host/conntrack.ts";
import type { ProxyMode } from "../../src/model/context.ts";
import type { FamilyName } from "../../src/model/family.ts";
import { context, type Dns, plan } from "../conntrack/world.ts";
import { recordingLog } from "./log.ts";
import { missing, type Namespace, namespace } from "./namespace.ts";

const reason = missing("conntrack");
if (reason !== undefined) console.warn(`conntrack kernel tests skipped: ${reason}`);

interface Seed {
  readonly to: string;
  readonly from: string;
  readonly protocol?: "udp" | "tcp" | "sctp";
}

/** `[fd00::1]:53` or `10.0.0.1:53` → address and port. */
function split(text: string): readonly [string, string] {
  const at = text.lastIndexOf(":");
  return [text.slice(0, at).replace(/[[\]]/g, ""), text.slice(at + 1)];
}

/** Each with a source port of its own: reply tuples must differ too. */
function insertLine({ to, from, protocol = "udp" }: Seed, index: number): string {
  const sport = 4000 + index;
  const [dst, dport] = split(to);
  const [replySrc, replySport] = split(from);
  const client = dst.includes(":") ? "fd00:1::2" : "10.1.0.2";
  const state = { udp: "", tcp: " --state ESTABLISHED", sctp: " --state ESTABLISHED --orig-vtag 1 --reply-vtag 2" }[
    protocol
  ];
  const original = `-s ${client} -d ${dst} --sport ${sport} --dport ${dport}`;
  const reply = `-r ${replySrc} -q ${client} --reply-port-src ${replySport} --reply-port-dst ${sport}`;
  return `-I -p ${protocol} ${original} ${reply} --timeout 3000${state}`;
}

describe.skipIf(reason !== undefined)("stale UDP flows in a kernel", () => {
  let ns: Namespace;
  beforeAll(async () => {
    ns = await namespace();
  });
  afterAll(() => ns.remove());
  beforeEach(async () => void (await ns.run(["conntrack", "-F"])));

  const seed = (seeds: readonly Seed[]) => ns.run(["conntrack", "-R", "-"], `${seeds.map(insertLine).join("\n")}\n`);

  /** `udp 10.96.0.10:53<10.1.0.3:53` of every entry, sorted. */
  async function entries(): Promise<string[]> {
    const all = (await ns.run(["conntrack", "-L"])) + (await ns.run(["conntrack", "-L", "-f", "ipv6"]));
    const words = (line: string, name: string) =>
      [...line.matchAll(new RegExp(` ${name}=(\\S+)`, "g"))].map((m) => m[1]);
    const shown = all.split("\n").flatMap((line) => {
      if (line === "") return [];
      const [dst, dport] = [words(line, "dst")[0], words(line, "dport")[0]];
      return [`${line.split(" ")[0]} ${dst}:${dport}<${words(line, "src")[1]}:${words(line, "sport")[1]}`];
    });
    return [...new Set(shown)].sort();
  }

  interface Run {
    readonly family?: FamilyName;
    readonly mode?: ProxyMode;
    readonly before: readonly Dns[] | undefined;
    readonly seeds: readonly Seed[];
    readonly after: readonly Dns[];
  }

  /** Applies `before`, seeds, applies `after`; what survives, and the clean-up's account. */
  async function survivors({ family = "IPv4", mode = "iptables", before, seeds, after }: Run) {
    const results: CleanUp[] = [];
    const log = recordingLog();
    const cleaner = new ConntrackCleaner({
      family,
      log,
      toolDirs: [ns.toolDir],
      gapMs: 0,
      onCleanUp: (result) => results.push(result),
    });
    const ctx = context(family, mode);
    const first = before === undefined ? undefined : plan(ctx, before);
    if (first !== undefined) cleaner.after(first, ctx);
    await cleaner.idle();
    results.length = 0;
    await seed(seeds);
    const count = (await entries()).length;
    expect(count).toBe(seeds.length);
    cleaner.after(plan(ctx, after, first), ctx);
    await cleaner.idle();
    cleaner.close();
    return { left: await entries(), result: results[0], log };
  }

  const vip = "10.96.0.10:53";
  const [p1, p2] = ["10.1.0.3:53", "10.1.0.4:53"];
  const dns: Dns = { endpoints: ["10.1.0.3", "10.1.0.4"] };
  /** What no change to a UDP Service may touch. */
  const bystanders: readonly Seed[] = [
    { to: vip, from: p1, protocol: "tcp" },
    { to: vip, from: p1, protocol: "sctp" },
    { to: "10.96.0.10:5353", from: p1 },
    { to: "192.0.2.10:8472", from: "192.0.2.10:8472" },
    { to: "10.1.0.3:53", from: "10.1.0.3:53" },
    { to: "10.96.0.99:53", from: "10.96.0.99:53" },
  ];
  const untouched = [
    "sctp 10.96.0.10:53<10.1.0.3:53",
    "tcp 10.96.0.10:53<10.1.0.3:53",
    "udp 10.1.0.3:53<10.1.0.3:53",
    "udp 10.96.0.10:5353<10.1.0.3:53",
    "udp 10.96.0.99:53<10.96.0.99:53",
    "udp 192.0.2.10:8472<192.0.2.10:8472",
  ];
  const left = (...more: string[]) => [...untouched, ...more].sort();
  const both: readonly Seed[] = [{ to: vip, from: p1 }, { to: vip, from: p2 }, ...bystanders];

  test.each(["iptables", "nftables"] as const)("an endpoint that left (%s)", async (mode) => {
    const run = await survivors({ mode, before: [dns], seeds: both, after: [{ endpoints: ["10.1.0.4"] }] });
    expect(run.left).toEqual(left("udp 10.96.0.10:53<10.1.0.4:53"));
    expect(run.result).toMatchObject({ family: "IPv4", deleted: 1, kept: 1 });
    expect(run.log.lines).toHaveLength(1);
    expect(run.log.lines[0]).toStartWith(
      "info Removed stale UDP flows from conntrack: 1 of dns/kube-dns:dns (endpoint 10.1.0.3 gone) family=IPv4 removed=1 kept=1 ms=",
    );
  });

  test("an endpoint that stopped serving but still exists", async () => {
    const run = await survivors({ before: [dns], seeds: both, after: [{ endpoints: ["!10.1.0.3", "10.1.0.4"] }] });
    expect(run.left).toEqual(left("udp 10.96.0.10:53<10.1.0.4:53"));
  });

  test("from some to none", async () => {
    const run = await survivors({ before: [dns], seeds: both, after: [{ endpoints: [] }] });
    expect(run.left).toEqual(left());
  });

  test("from none to some: what was never translated goes", async () => {
    const seeds = [{ to: vip, from: vip }, { to: vip, from: p1 }, ...bystanders];
    const run = await survivors({ before: [{ endpoints: [] }], seeds, after: [{ endpoints: ["10.1.0.3"] }] });
    expect(run.left).toEqual(left("udp 10.96.0.10:53<10.1.0.3:53"));
    expect(run.result?.byService).toEqual([{ service: "dns/kube-dns:dns", reason: "untranslated", count: 1 }]);
  });

  test("a target port that changed", async () => {
    const port = { name: "dns", port: 53 };
    const run = await survivors({
      before: [{ ...dns, ports: [{ ...port, targetPort: 53 }] }],
      seeds: both,
      after: [{ ...dns, ports: [{ ...port, targetPort: 1053 }] }],
    });
    expect(run.left).toEqual(left());
  });

  test("a Service that was deleted", async () => {
    const run = await survivors({ before: [dns], seeds: both, after: [] });
    expect(run.left).toEqual(left());
    expect(run.log.lines[0]).toContain("2 of dns/kube-dns:dns (port, address or Service gone)");
  });

  test("one of two ports that was deleted", async () => {
    const ports = [
      { name: "dns", port: 53 },
      { name: "alt", port: 5300 },
    ];
    const seeds = [...both, { to: "10.96.0.10:5300", from: "10.1.0.3:5300" }];
    const run = await survivors({ before: [{ ...dns, ports }], seeds, after: [{ ...dns, ports: ports.slice(0, 1) }] });
    expect(run.left).toEqual(left("udp 10.96.0.10:53<10.1.0.3:53", "udp 10.96.0.10:53<10.1.0.4:53"));
  });

  const exposed: Dns = {
    ...dns,
    externalIPs: ["203.0.113.9"],
    loadBalancerIPs: ["203.0.113.5"],
    ports: [{ name: "dns", port: 53, nodePort: 30_053 }],
  };
  const everywhere: readonly Seed[] = [
    { to: "203.0.113.9:53", from: p1 },
    { to: "203.0.113.5:53", from: p1 },
    { to: "192.0.2.10:30053", from: p1 },
    { to: vip, from: p1 },
    { to: "192.0.2.10:53", from: "192.0.2.10:53" },
    { to: "198.51.100.7:30053", from: "198.51.100.7:30053" },
  ];
  const elsewhere = ["udp 192.0.2.10:53<192.0.2.10:53", "udp 198.51.100.7:30053<198.51.100.7:30053"];

  test("an endpoint that left, seen from every kind of frontend", async () => {
    const run = await survivors({
      before: [exposed],
      seeds: everywhere,
      after: [{ ...exposed, endpoints: ["10.1.0.4"] }],
    });
    expect(run.left).toEqual(elsewhere);
  });

  test("frontend addresses and the node port that went away", async () => {
    const run = await survivors({ before: [exposed], seeds: everywhere, after: [dns] });
    expect(run.left).toEqual(["udp 10.96.0.10:53<10.1.0.3:53", ...elsewhere].sort());
    expect(run.result?.deleted).toBe(3);
  });

  test("a frontend that moved to another live Service is that Service's", async () => {
    const other: Dns = { name: "other", ips: ["10.96.0.11"], externalIPs: ["203.0.113.9"], endpoints: ["10.1.0.4"] };
    const run = await survivors({
      before: [exposed],
      seeds: [
        { to: "203.0.113.9:53", from: p1 },
        { to: "203.0.113.9:53", from: p2 },
      ],
      after: [dns, other],
    });
    expect(run.left).toEqual(["udp 203.0.113.9:53<10.1.0.4:53"]);
  });

  test("an external IP that is the node's own leaves the node's other flows alone", async () => {
    const own: Dns = { externalIPs: ["192.0.2.10"], endpoints: ["10.1.0.3"] };
    const seeds: readonly Seed[] = [
      { to: "192.0.2.10:53", from: "10.1.0.9:53" },
      { to: "192.0.2.10:8472", from: "192.0.2.10:8472" },
      { to: "192.0.2.10:5353", from: "192.0.2.10:5353" },
    ];
    const run = await survivors({ before: [{ ...own, endpoints: ["10.1.0.9"] }], seeds, after: [own] });
    expect(run.left).toEqual(["udp 192.0.2.10:5353<192.0.2.10:5353", "udp 192.0.2.10:8472<192.0.2.10:8472"]);
  });

  test("a restart removes the stale and keeps the healthy", async () => {
    const run = await survivors({
      before: undefined,
      seeds: [...both, { to: vip, from: "10.1.0.9:53" }],
      after: [dns],
    });
    expect(run.left).toEqual(left("udp 10.96.0.10:53<10.1.0.3:53", "udp 10.96.0.10:53<10.1.0.4:53"));
  });

  test("IPv6", async () => {
    const run = await survivors({
      family: "IPv6",
      before: [{ endpoints: ["fd00:1::3", "fd00:1::4"] }],
      seeds: [
        { to: "[fd00:10::a]:53", from: "[fd00:1::3]:53" },
        { to: "[fd00:10::a]:53", from: "[fd00:1::4]:53" },
        { to: "[fd00:10::a]:53", from: "[fd00:1::3]:53", protocol: "tcp" },
        { to: vip, from: "10.1.0.9:53" },
      ],
      after: [{ endpoints: ["fd00:1::4"] }],
    });
    expect(run.left).toEqual([
      "tcp fd00:10::a:53<fd00:1::3:53",
      "udp 10.96.0.10:53<10.1.0.9:53",
      "udp fd00:10::a:53<fd00:1::4:53",
    ]);
  });

  test.each([
    ["nftables", ["udp 127.0.0.1:30053<127.0.0.1:30053"]],
    ["ipvs", ["udp 127.0.0.1:30053<127.0.0.1:30053"]],
    ["iptables", []],
  ] as const)("loopback node ports count only where the mode serves them: %s", async (mode, wanted) => {
    const seeds: readonly Seed[] = [{ to: "127.0.0.1:30053", from: "127.0.0.1:30053" }];
    const run = await survivors({ mode, before: [exposed], seeds, after: [{ ...exposed, endpoints: ["10.1.0.4"] }] });
    expect(run.left).toEqual([...wanted]);
  });

  test("entries of another conntrack zone are somebody else's", async () => {
    const zoned = `${insertLine({ to: vip, from: vip }, 0)} -w 7`;
    const plain = insertLine({ to: vip, from: vip }, 1);
    const cleaner = new ConntrackCleaner({ family: "IPv4", log: recordingLog(), toolDirs: [ns.toolDir] });
    try {
      await ns.run(["conntrack", "-R", "-"], `${zoned}\n`);
    } catch (error) {
      // CONFIG_NF_CONNTRACK_ZONES: Debian's user-mode Linux lacks it; then no such entry can exist.
      if (!String(error).includes("Operation not supported")) throw error;
      console.warn("conntrack zone test skipped: this kernel has no zones");
      return;
    }
    await ns.run(["conntrack", "-R", "-"], `${plain}\n`);
    const ctx = context("IPv4", "nftables");
    cleaner.after(plan(ctx, [dns]), ctx);
    await cleaner.idle();
    cleaner.close();
    const lines = (await ns.run(["conntrack", "-L", "-p", "udp"])).trim().split("\n");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("zone=7");
  });

  test("no UDP Service: the table is not even listed", async () => {
    const run = await survivors({
      before: undefined,
      seeds: bystanders,
      after: [{ ports: [{ protocol: "tcp", port: 53 }] }],
    });
    expect(run.left).toEqual(left());
    expect(run.result).toBeUndefined();
  });
});
