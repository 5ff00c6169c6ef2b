import { describe, expect, test } from "bun:test";
import { frontendsOf, retiredFrontends, udpChanged } from "../../src/conntrack/frontends.ts";
import { describeStale, FlowSorter, judge, type StaleClass } from "../../src/conntrack/stale.ts";
import type { UdpFlow } from "../../src/tools/conntrack.ts";
import { context, plan } from "./world.ts";

const ctx = context("IPv4", "iptables");
const flow = (dst: string, dport: number, replySrc: string, replySport = dport): UdpFlow => ({
  dst,
  dport,
  replySrc,
  replySport,
});
const none = new Map<string, string>();

describe("judge", () => {
  const dns = {
    ports: [{ name: "dns", port: 53, nodePort: 30_053, targetPort: 1053 }],
    endpoints: ["10.1.0.3", "!10.1.0.4"],
  };
  const frontends = frontendsOf(plan(ctx, [dns]), ctx);

  test.each<readonly [string, UdpFlow, string]>([
    ["to a serving endpoint", flow("10.96.0.10", 53, "10.1.0.3", 1053), "healthy"],
    ["to its right address, wrong port", flow("10.96.0.10", 53, "10.1.0.3", 53), "stale endpoint"],
    ["to one that does not serve", flow("10.96.0.10", 53, "10.1.0.4", 1053), "stale endpoint"],
    ["never translated", flow("10.96.0.10", 53, "10.96.0.10"), "stale untranslated"],
    ["another port of the address", flow("10.96.0.10", 54, "10.1.0.4", 1053), "foreign"],
    ["node port, healthy", flow("192.0.2.10", 30_053, "10.1.0.3", 1053), "healthy"],
    ["node port, stale", flow("192.0.2.10", 30_053, "10.1.0.9", 1053), "stale endpoint"],
    ["node port number at an address of somebody else", flow("198.51.100.1", 30_053, "198.51.100.1"), "foreign"],
    ["the port number of a Service at the node's address", flow("192.0.2.10", 53, "192.0.2.10"), "foreign"],
  ])("%s", (_, one, wanted) => {
    const verdict = judge(one, frontends, none);
    expect(verdict.kind === "stale" ? `stale ${verdict.reason}` : verdict.kind).toBe(wanted);
  });

  test("the node IP counts for translated flows even while no interface has it, for others it does not", () => {
    const away = { ...ctx, nodePorts: { any: true, addresses: [], loopback: true } };
    const moved = frontendsOf(plan(away, [dns]), away);
    expect(judge(flow("192.0.2.10", 30_053, "10.1.0.9", 1053), moved, none).kind).toBe("stale");
    expect(judge(flow("192.0.2.10", 30_053, "10.1.0.3", 1053), moved, none).kind).toBe("healthy");
    expect(judge(flow("192.0.2.10", 30_053, "192.0.2.10"), moved, none).kind).toBe("foreign");
    // Nor are they deleted along with the others when the Service is gone.
    const gone = frontendsOf(plan(away, []), away);
    const verdict = judge(
      flow("192.0.2.10", 30_053, "10.1.0.3", 1053),
      gone,
      new Map([[" 30053", "dns/kube-dns:dns"]]),
    );
    expect(verdict).toMatchObject({ kind: "stale", whole: false });
  });

  test("an address that went away is no excuse to touch the node port of a living Service there", () => {
    const retired = new Map([["192.0.2.10 30053", "dns/old:dns"]]);
    expect(judge(flow("192.0.2.10", 30_053, "10.1.0.3", 1053), frontends, retired).kind).toBe("healthy");
  });

  test("a retired frontend makes all its flows stale, unless it has a living owner", () => {
    const retired = new Map([
      ["10.96.0.77 53", "dns/old:dns"],
      ["10.96.0.10 53", "dns/older:dns"],
    ]);
    expect(judge(flow("10.96.0.77", 53, "10.1.0.3", 1053), frontends, retired)).toEqual({
      kind: "stale",
      reason: "frontend",
      service: "dns/old:dns",
      whole: true,
    });
    expect(judge(flow("10.96.0.10", 53, "10.1.0.3", 1053), frontends, retired).kind).toBe("healthy");
  });
});

describe("endpoints that no policy chooses", () => {
  test("are healthy as long as they serve: a policy change cuts no flow", () => {
    const world = plan(ctx, [{ endpoints: ["10.1.0.3"] }]);
    const service = world.services.get("dns/kube-dns");
    if (service === undefined) throw new Error("no service");
    const [port] = service.ports;
    if (port === undefined) throw new Error("no port");
    const unusedOnly = { ...service, ports: [{ ...port, endpoints: [], unused: port.endpoints }] };
    const frontends = frontendsOf({ ...world, services: new Map([[service.key, unusedOnly]]) }, ctx);
    expect(judge(flow("10.96.0.10", 53, "10.1.0.3"), frontends, none).kind).toBe("healthy");
  });
});

describe("udpChanged and retiredFrontends", () => {
  const dns = { endpoints: ["10.1.0.3"] };
  const tcp = { name: "web", ips: ["10.96.0.20"], ports: [{ protocol: "tcp", port: 80 }] } as const;
  const before = plan(ctx, [dns, tcp]);

  test.each<readonly [string, Parameters<typeof plan>[1], boolean]>([
    ["a UDP Service without endpoints", [{ endpoints: [] }, tcp], true],
    ["a UDP Service gone", [tcp], true],
    ["a UDP Service more", [dns, tcp, { name: "b", ips: ["10.96.0.30"] }], true],
    ["the port now TCP", [{ ...dns, ports: [{ protocol: "tcp", port: 53 }] }, tcp], true],
  ])("%s", (_, services, wanted) => {
    expect(udpChanged(before, plan(ctx, services))).toBe(wanted);
  });

  test("only a TCP Service changed", () => {
    const [key, service] = [...before.services].find(([name]) => name === "dns/web") ?? [];
    if (key === undefined || service === undefined) throw new Error("no service");
    const after = { ...before, services: new Map([...before.services, [key, { ...service }]]) };
    expect(udpChanged(before, after)).toBe(false);
    expect(udpChanged(before, before)).toBe(false);
  });

  test("what goes away is retired, what moves to another Service is not", () => {
    const shared = {
      ...dns,
      externalIPs: ["203.0.113.9"],
      loadBalancerIPs: ["203.0.113.5"],
      ports: [{ name: "dns", port: 53, nodePort: 30_053 }],
    };
    const heir = { name: "heir", ips: ["10.96.0.40"], loadBalancerIPs: ["203.0.113.5"], endpoints: ["10.1.0.4"] };
    const [old, next] = [plan(ctx, [shared]), plan(ctx, [heir])];
    expect([...retiredFrontends(old, next, frontendsOf(next, ctx))]).toEqual([
      ["10.96.0.10 53", "dns/kube-dns:dns"],
      ["203.0.113.9 53", "dns/kube-dns:dns"],
      [" 30053", "dns/kube-dns:dns"],
    ]);
  });
});

describe("FlowSorter", () => {
  test("flows that are alike become one class, the largest first; the healthy are counted", () => {
    const sorter = new FlowSorter(frontendsOf(plan(ctx, [{ endpoints: ["10.1.0.3"] }]), ctx), none);
    for (const [ip, count] of [
      ["10.1.0.8", 2],
      ["10.1.0.9", 5],
      ["10.1.0.3", 4],
    ] as const) {
      for (let i = 0; i < count; i++) sorter.add(flow("10.96.0.10", 53, ip));
    }
    sorter.add(flow("9.9.9.9", 53, "9.9.9.9"));
    const { stale, healthy } = sorter.result();
    expect(stale.map(({ flow: { replySrc }, count }) => [replySrc, count])).toEqual([
      ["10.1.0.9", 5],
      ["10.1.0.8", 2],
    ]);
    expect(healthy).toBe(4);
  });
});

describe("a destination where nothing can be healthy", () => {
  test.each<readonly [string, Parameters<typeof plan>[1], ReadonlyMap<string, string>]>([
    ["owner without endpoints", [{ endpoints: [] }], none],
    ["no owner", [], new Map([["10.96.0.10 53", "dns/kube-dns:dns"]])],
  ])("is one class: %s", (_, services, retired) => {
    const sorter = new FlowSorter(frontendsOf(plan(ctx, services), ctx), retired);
    for (let i = 0; i < 50; i++) sorter.add(flow("10.96.0.10", 53, `10.1.0.${i}`));
    const { stale } = sorter.result();
    expect(stale.map(({ whole, count }) => [whole, count])).toEqual([[true, 50]]);
  });
});

describe("describeStale", () => {
  const one = (service: string, reason: StaleClass["reason"], count: number, replySrc = "10.1.0.3"): StaleClass => ({
    flow: flow("10.96.0.10", 53, replySrc),
    whole: false,
    service,
    reason,
    count,
  });

  test("groups by Service and reason and names the endpoints", () => {
    const stale = [
      one("a/b:c", "endpoint", 3),
      one("a/b:c", "endpoint", 2, "10.1.0.4"),
      one("a/b:c", "untranslated", 1),
      one("x/y", "frontend", 7),
    ];
    expect(describeStale(stale)).toBe(
      "5 of a/b:c (endpoints 10.1.0.3, 10.1.0.4 gone), 1 of a/b:c (never sent to an endpoint), 7 of x/y (port, address or Service gone)",
    );
  });

  test("stays one bounded line", () => {
    const stale = Array.from({ length: 40 }, (_, i) => one(`ns/s${i}`, "frontend", 1));
    expect(describeStale(stale)).toEndWith("1 of ns/s4 (port, address or Service gone), 35 more Services");
  });
});
