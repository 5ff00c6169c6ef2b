/** The walkers themselves, on rules written by hand, and that they notice a rule that is missing or wrong. */
import { expect, test } from "bun:test";
import { iptables } from "../../src/backends/iptables/index.ts";
import { endpointChain } from "../../src/backends/iptables/names.ts";
import { nftables } from "../../src/backends/nftables/index.ts";
import { endpointName } from "../../src/backends/nftables/names.ts";
import type { Packet } from "../../src/explain/packet.ts";
import { makePlan } from "../../src/model/planner.ts";
import { parseRule, type Rule } from "../../src/tools/iptables.ts";
import { testContext } from "../model/context.ts";
import { type RawService, snapshotOf } from "../model/random.ts";
import { printOutcomes, type Walked } from "./fate.ts";
import { tablesOf, walkIptables } from "./iptables-mode.ts";
import { type World, walkChain } from "./iptables-walk.ts";
import { tableOf, walkNftables } from "./nftables-mode.ts";
import { type Nft, type NftWorld, walkNft } from "./nftables-walk.ts";
import { walked, walkerOf } from "./walk.ts";

const packet: Walked = {
  saddr: "10.244.1.5",
  daddr: "10.96.0.1",
  protocol: "tcp",
  dport: 80,
  iif: "cbr0",
  isLocal: (ip) => ip === "192.168.0.2",
};

function chains(...lines: readonly string[]): ReadonlyMap<string, readonly Rule[]> {
  const out = new Map<string, Rule[]>();
  for (const line of lines) {
    const rule = parseRule(line);
    if (rule === undefined) throw new Error(line);
    out.set(rule.chain, [...(out.get(rule.chain) ?? []), rule]);
  }
  return out;
}

function iptablesExits(lines: readonly string[], changes: Partial<World> = {}): string {
  const world: World = { packet, sets: new Map(), remembered: new Set(), translated: false, ...changes };
  return walkChain(chains(...lines), "A", 0, world)
    .map(({ probability, mark, verdict }) => `${probability} 0x${mark.toString(16)} ${JSON.stringify(verdict)}`)
    .join("; ");
}

test.each([
  ["no rule decides", ["-A A -d 10.96.0.2/32 -j DROP"], '1 0x0 "end"'],
  ["a negated source", ["-A A ! -s 10.244.0.0/16 -j DROP", "-A A ! -s 10.245.0.0/16 -j REJECT"], '1 0x0 "reject"'],
  [
    "RETURN goes back to the rule after the jump, with the mark that was set",
    ["-A A -j B", "-A A -j ACCEPT", "-A B -j MARK --set-xmark 0x4000/0x4000", "-A B -j RETURN", "-A B -j DROP"],
    '1 0x4000 "accept"',
  ],
  [
    "chance splits the walk",
    ["-A A -m statistic --mode random --probability 0.25 -j DROP", "-A A -j ACCEPT"],
    '0.25 0x0 "drop"; 0.75 0x0 "accept"',
  ],
  [
    "set-xmark toggles outside its mask",
    ["-A A -j MARK --set-xmark 0x3/0x1", "-A A -j MARK --set-xmark 0x3/0x0"],
    '1 0x0 "end"',
  ],
  ["interface wildcard", ["-A A -i cb+ -j DROP"], '1 0x0 "drop"'],
  ["the address type of the destination", ["-A A -m addrtype --dst-type LOCAL -j DROP"], '1 0x0 "end"'],
  ["DNAT", ["-A A -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.1:8080"], '1 0x0 {"dnat":"10.0.0.1:8080"}'],
])("iptables: %s", (_, lines, exits) => {
  expect(iptablesExits(lines)).toBe(exits);
});

test("iptables: sets by direction, networks in sets, a missing set and a missing chain are errors", () => {
  const sets = new Map([["S", new Set(["10.96.0.1,tcp:80,10.244.1.0/24"])]]);
  const rule = ["-A A -m set --match-set S dst,dst,src -j DROP"];
  expect(iptablesExits(rule, { sets })).toBe('1 0x0 "drop"');
  expect(iptablesExits(rule, { sets, packet: { ...packet, saddr: "10.244.2.5" } })).toBe('1 0x0 "end"');
  expect(() => iptablesExits(rule)).toThrow("unknown set S");
  expect(() => iptablesExits(["-A A -j NOWHERE"])).toThrow("missing chain NOWHERE");
  expect(() => iptablesExits(["-A A -m length --length 5 -j DROP"])).toThrow("unknown option --length");
});

function nftExits(
  nft: Readonly<Record<string, readonly string[]>>,
  sets: Readonly<Record<string, Record<string, string>>> = {},
): string {
  const all: Nft = {
    chains: new Map(Object.entries(nft)),
    sets: new Map(Object.entries(sets).map(([name, elements]) => [name, new Map(Object.entries(elements))])),
  };
  const world: NftWorld = { nft: all, packet, translated: true, remembered: new Set() };
  return walkNft(world, "a", 0)
    .map(({ probability, mark, verdict }) => `${probability} 0x${mark.toString(16)} ${JSON.stringify(verdict)}`)
    .join("; ");
}

test("nftables: jump comes back, goto does not, marks stay, chance splits", () => {
  expect(nftExits({ a: ["jump b", "drop"], b: ["meta mark set meta mark | 0x00004000"] })).toBe('1 0x4000 "drop"');
  expect(nftExits({ a: ["jump b", "drop"], b: ["goto c", "reject"], c: [] })).toBe('1 0x0 "drop"');
  expect(nftExits({ a: ["goto b", "drop"], b: [] })).toBe('1 0x0 "end"');
  expect(nftExits({ a: ["numgen random mod 4 vmap { 0 : goto b, 1 : goto b, 2 : drop, 3 : reject }"], b: [] })).toBe(
    '0.25 0x0 "end"; 0.25 0x0 "end"; 0.25 0x0 "drop"; 0.25 0x0 "reject"',
  );
  const maps = { m: { "10.96.0.1 . tcp . 80": "goto b" } };
  expect(nftExits({ a: ["ip daddr . meta l4proto . th dport vmap @m", "drop"], b: ["reject"] }, maps)).toBe(
    '1 0x0 "reject"',
  );
  expect(() => nftExits({ a: ["tcp flags syn drop"] })).toThrow('cannot read "tcp flags syn drop"');
});

const raw: RawService = {
  service: {
    metadata: { namespace: "ns", name: "s" },
    spec: {
      type: "NodePort",
      clusterIP: "10.96.0.1",
      clusterIPs: ["10.96.0.1"],
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      ports: [{ port: 80, protocol: "TCP", nodePort: 30080 }],
    },
  },
  slices: [
    {
      metadata: { namespace: "ns", name: "s-1", labels: { "kubernetes.io/service-name": "s" } },
      addressType: "IPv4",
      ports: [{ name: "", port: 8080, protocol: "TCP" }],
      endpoints: ["10.244.1.5", "10.244.2.5"].map((ip) => ({
        addresses: [ip],
        nodeName: "node-2",
        conditions: { ready: true },
      })),
    },
  ],
};

const here = { localAddresses: new Set(["192.168.0.2"]) };
const outside: Packet = {
  from: { kind: "external", ip: "203.0.113.9", assumed: false },
  to: { ip: "192.168.0.2", port: 30080, protocol: "tcp" },
};

test("a client that is remembered goes to its endpoint only", () => {
  for (const mode of ["iptables", "nftables"] as const) {
    const context = testContext(mode);
    const plan = makePlan(snapshotOf([raw]), context);
    const service = plan.services.get("ns/s");
    const port = service?.ports[0];
    const endpoint = port?.endpoints[1];
    if (service === undefined || port === undefined || endpoint === undefined) throw new Error("no plan");
    const name =
      mode === "iptables" ? endpointChain(port, endpoint) : `affinity-${endpointName(service, port, endpoint)}`;
    const way = (remembered: ReadonlySet<string>) =>
      printOutcomes(walkerOf(plan, context, remembered)(walked(outside, here)));
    expect(way(new Set())).toBe("10.244.1.5:8080 masqueraded 50.0%, 10.244.2.5:8080 masqueraded 50.0%");
    expect(way(new Set([name]))).toBe("10.244.2.5:8080 masqueraded 100.0%");
  }
});

test("a rule that is missing changes where the packet ends", () => {
  const plan = makePlan(snapshotOf([raw]), testContext("iptables"));
  const tables = tablesOf(iptables.desired(plan, testContext("iptables"), undefined));
  const without = (table: "nat" | "filter", chain: string) => ({
    ...tables,
    [table]: new Map(tables[table]).set(chain, []),
  });
  const whole = "10.244.1.5:8080 masqueraded 50.0%, 10.244.2.5:8080 masqueraded 50.0%";
  expect(printOutcomes(walkIptables({ tables }, walked(outside, here)))).toBe(whole);
  expect(printOutcomes(walkIptables({ tables: without("nat", "KUBE-NODEPORTS") }, walked(outside, here)))).toBe(
    "pass 100.0%",
  );
  expect(printOutcomes(walkIptables({ tables: without("nat", "KUBE-MARK-MASQ") }, walked(outside, here)))).toBe(
    "10.244.1.5:8080 50.0%, 10.244.2.5:8080 50.0%",
  );
  const context = testContext("nftables");
  const table = tableOf(nftables.desired(makePlan(snapshotOf([raw]), context), context, undefined));
  const sets = new Map(table.sets).set("service-nodeports", new Map());
  expect(printOutcomes(walkNftables(table, walked(outside, here)))).toBe(whole);
  expect(printOutcomes(walkNftables({ ...table, sets }, walked(outside, here)))).toBe("pass 100.0%");
});
