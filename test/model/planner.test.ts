import { expect, test } from "bun:test";
import type { PortPlan } from "../../src/model/plan.ts";
import { makePlan } from "../../src/model/planner.ts";
import type { ServiceInput } from "../../src/model/snapshot.ts";
import { testContext } from "./context.ts";
import { Random, type RawService, randomChange, randomService, snapshotOf } from "./random.ts";

interface Ep {
  readonly ip: string;
  readonly node?: string;
  readonly conditions?: Record<string, boolean>;
  readonly zones?: readonly string[];
  readonly nodes?: readonly string[];
}

const ready = { ready: true, serving: true, terminating: false };
const dead = { ready: false, serving: false, terminating: false };
const draining = { ready: false, serving: true, terminating: true };

function raw(
  spec: Record<string, unknown>,
  endpoints: readonly Ep[],
  meta: Record<string, unknown> = {},
  ingress: unknown[] = [],
): RawService {
  const service = {
    metadata: { namespace: "ns", name: "s", ...meta },
    spec: {
      type: "ClusterIP",
      clusterIP: "10.96.0.1",
      clusterIPs: ["10.96.0.1"],
      ports: [{ port: 80, protocol: "TCP" }],
      ...spec,
    },
    status: { loadBalancer: { ingress } },
  };
  const slice = {
    metadata: { namespace: "ns", name: "s-1", labels: { "kubernetes.io/service-name": "s" } },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: endpoints.map(({ ip, node, conditions, zones, nodes }) => ({
      addresses: [ip],
      nodeName: node ?? "node-2",
      conditions: conditions ?? ready,
      hints: { forZones: zones?.map((name) => ({ name })), forNodes: nodes?.map((name) => ({ name })) },
    })),
  };
  return { service, slices: [slice] };
}

function plan(one: RawService): PortPlan {
  const port = makePlan(snapshotOf([one]), testContext("iptables")).services.get("ns/s")?.ports[0];
  if (port === undefined) throw new Error("no plan");
  return port;
}

const ips = (list: PortPlan["endpoints"]): readonly string[] => list.map((e) => e.ip);
const [here, there] = [
  { ip: "10.244.1.5", node: "node-1" },
  { ip: "10.244.2.5", node: "node-2" },
];
const nodePort = { type: "NodePort", ports: [{ port: 80, protocol: "TCP", nodePort: 30080 }] };

test("the two traffic policies are independent (kubernetes#105470)", () => {
  const fates = ["Cluster", "Local"].flatMap((internal) =>
    ["Cluster", "Local"].map((external) => {
      const spec = { ...nodePort, internalTrafficPolicy: internal, externalTrafficPolicy: external };
      const p = plan(raw(spec, [here, there]));
      return [p.internal, p.external, ips(p.clusterEndpoints).length, ips(p.localEndpoints).length];
    }),
  );
  expect(fates).toEqual([
    ["cluster", "cluster", 2, 0],
    ["cluster", "local", 2, 1],
    ["local", "cluster", 2, 1],
    ["local", "local", 2, 1],
  ]);
});

test("a Local policy without local endpoint drops, without any endpoint rejects (kubernetes#121371)", () => {
  const spec = { ...nodePort, internalTrafficPolicy: "Local", externalTrafficPolicy: "Local" };
  expect(plan(raw(spec, [there]))).toMatchObject({ internal: "drop", external: "drop", usesCluster: true });
  expect(plan(raw(spec, []))).toMatchObject({ internal: "reject", external: "reject" });
  expect(plan(raw(spec, [{ ...there, conditions: dead }]))).toMatchObject({ internal: "reject" });
});

test("terminating endpoints serve only while nothing is ready (KEP-1669)", () => {
  expect(ips(plan(raw({}, [{ ...here, conditions: draining }])).endpoints)).toEqual(["10.244.1.5"]);
  expect(ips(plan(raw({}, [{ ...here, conditions: draining }, there])).endpoints)).toEqual(["10.244.2.5"]);
  const spec = { ...nodePort, externalTrafficPolicy: "Local" };
  const p = plan(raw(spec, [{ ...here, conditions: draining }, there]));
  expect([ips(p.localEndpoints), ips(p.clusterEndpoints)]).toEqual([["10.244.1.5"], ["10.244.2.5"]]);
});

test("zone hints apply when every ready endpoint has them and one names this zone", () => {
  const a = { ...here, zones: ["zone-a"] };
  const b = { ...there, zones: ["zone-b"] };
  expect(ips(plan(raw({}, [a, b])).endpoints)).toEqual(["10.244.1.5"]);
  expect(ips(plan(raw({}, [a, there])).endpoints)).toEqual(["10.244.1.5", "10.244.2.5"]);
  expect(ips(plan(raw({}, [{ ...a, zones: ["zone-c"] }, b])).endpoints)).toEqual(["10.244.1.5", "10.244.2.5"]);
});

test("hints of unready endpoints do not count (kubernetes#106507)", () => {
  const a = { ...here, zones: ["zone-a"], conditions: dead };
  expect(ips(plan(raw({}, [a, { ...there, zones: ["zone-b"] }])).endpoints)).toEqual(["10.244.2.5"]);
});

test("node hints beat zone hints; one endpoint without them disables that level", () => {
  const a = { ...here, nodes: ["node-1"], zones: ["zone-a"] };
  const b = { ...there, nodes: ["node-2"], zones: ["zone-a"] };
  expect(ips(plan(raw({}, [a, b])).endpoints)).toEqual(["10.244.1.5"]);
  expect(ips(plan(raw({}, [a, { ...there, zones: ["zone-a"] }])).endpoints)).toEqual(["10.244.1.5", "10.244.2.5"]);
});

test("ipMode Proxy addresses are not ours, others are (KEP-1860)", () => {
  const ingress = [
    { ip: "203.0.113.1", ipMode: "Proxy" },
    { ip: "203.0.113.2", ipMode: "VIP" },
    { ip: "203.0.113.3" },
    { hostname: "x" },
  ];
  const p = plan(raw({ ...nodePort, type: "LoadBalancer" }, [here], {}, ingress));
  expect(p.loadBalancerIPs).toEqual(["203.0.113.2", "203.0.113.3"]);
});

test("an unusable source range closes, never opens", () => {
  const p = plan(
    raw({ ...nodePort, type: "LoadBalancer", loadBalancerSourceRanges: ["nonsense"] }, [here], {}, [
      { ip: "203.0.113.1" },
    ]),
  );
  expect(p.sourceRanges).toEqual(["0.0.0.0/32"]);
});

test("the older of two claimants of an external address has it, whatever the order (kubernetes#69599)", () => {
  const claim = (name: string, ip: string, born: string): RawService =>
    raw({ clusterIP: ip, clusterIPs: [ip], externalIPs: ["198.51.100.7"] }, [], { name, creationTimestamp: born });
  const young = claim("a", "10.96.0.1", "2026-01-02T00:00:00Z");
  const old = claim("b", "10.96.0.2", "2026-01-01T00:00:00Z");
  for (const order of [
    [young, old],
    [old, young],
  ]) {
    const made = makePlan(snapshotOf(order), testContext("nftables"));
    expect(made.services.get("ns/b")?.ports[0]?.externalIPs).toEqual(["198.51.100.7"]);
    expect(made.services.get("ns/a")?.ports[0]?.externalIPs).toEqual([]);
    expect(made.conflicts).toEqual([
      "198.51.100.7 port 80/tcp is claimed by ns/b and ns/a: ns/b has it (cluster IPs first, then the older Service)",
    ]);
  }
});

test("endpoint changes alone amend the last plan and give the same as planning from scratch", () => {
  const random = new Random(11);
  const context = testContext("iptables");
  let cluster: readonly RawService[] = Array.from({ length: 60 }, (_, i) => randomService(random, i));
  const memory = new Map<RawService, ServiceInput>();
  let previous = makePlan(snapshotOf(cluster, memory), context);
  for (let round = 0; round < 20; round++) {
    cluster = cluster.map((one) =>
      random.chance(80)
        ? one
        : { ...one, slices: one.slices.map((s) => ({ ...s, endpoints: random.chance(50) ? [] : s["endpoints"] })) },
    );
    const snapshot = { ...snapshotOf(cluster, memory), serviceCIDRs: previous.memory.cidrs };
    const next = makePlan(snapshot, context, previous);
    const scratch = makePlan(snapshotOf(cluster), context);
    const bare = (p: typeof next): unknown => [...p.services.values()].map(({ input: _, ...rest }) => rest);
    expect(bare(next)).toEqual(bare(scratch));
    expect([next.endpointCount, next.noLocalEndpoints]).toEqual([scratch.endpointCount, scratch.noLocalEndpoints]);
    expect(makePlan(snapshot, context, next)).toBe(next);
    previous = next;
  }
});

test("a new plan reuses what did not change and equals a plan from scratch", () => {
  const random = new Random(7);
  const context = testContext("nftables");
  let cluster: readonly RawService[] = Array.from({ length: 60 }, (_, i) => randomService(random, i));
  const memory = new Map<RawService, ServiceInput>();
  let previous = makePlan(snapshotOf(cluster, memory), context);
  for (let round = 1; round <= 20; round++) {
    const before = cluster;
    cluster = randomChange(random, cluster, 60 + round * 3);
    const next = makePlan(snapshotOf(cluster, memory), context, previous);
    const scratch = makePlan(snapshotOf(cluster), context);
    expect([...next.services.keys()]).toEqual([...scratch.services.keys()]);
    const bare = (p: typeof next): unknown => [...p.services.values()].map(({ input: _, ...rest }) => rest);
    expect(bare(next)).toEqual(bare(scratch));
    expect([next.endpointCount, next.noLocalEndpoints]).toEqual([scratch.endpointCount, scratch.noLocalEndpoints]);
    for (const one of cluster.filter((c) => before.includes(c))) {
      const key = memory.get(one)?.service.key ?? "";
      expect(next.services.get(key)).toBe(previous.services.get(key) as never);
    }
    previous = next;
  }
});
