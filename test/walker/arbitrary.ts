/** Seeded random contexts, clusters and packets for the comparison of walkers and `explain`. */
import type { Here, Packet, Source } from "../../src/explain/packet.ts";
import type { Context, LocalDetector, ProxyMode } from "../../src/model/context.ts";
import type { FamilyName } from "../../src/model/family.ts";
import type { Plan, PortPlan } from "../../src/model/plan.ts";
import type { Protocol } from "../../src/model/service.ts";
import type { Snapshot } from "../../src/model/snapshot.ts";
import { testContext } from "../model/context.ts";
import { type Random, type RawService, randomService, snapshotOf } from "../model/random.ts";

const second: Readonly<Record<FamilyName, string>> = { IPv4: "172.16.0.2", IPv6: "fd00:172:16::2" };
const bridgeAddress: Readonly<Record<FamilyName, string>> = { IPv4: "10.244.1.254", IPv6: "fd00:10:244:1::fffe" };

export function randomContext(
  random: Random,
  mode: ProxyMode,
  family: FamilyName,
): { readonly context: Context; readonly here: Here } {
  const base = testContext(mode, family);
  const detectors: readonly LocalDetector[] = [
    base.detectLocal,
    base.detectLocal,
    { kind: "bridge", name: "cbr0" },
    { kind: "prefix", prefix: "cb" },
    { kind: "none" },
  ];
  const own = [base.nodeIP, second[family], bridgeAddress[family]];
  const any = random.chance(50);
  const loopback = any || random.chance(30);
  const addresses = any ? own : random.chance(80) ? own.filter(() => random.chance(60)) : [];
  const localhost =
    mode === "nftables" ? loopback && random.chance(50) : family === "IPv4" && loopback && random.chance(60);
  const context = testContext(mode, family, {
    detectLocal: random.pick(detectors),
    nodePorts: { any, addresses: [...addresses].sort(), loopback },
    masqueradeAll: random.chance(15),
    masqueradeMark: random.pick([0x4000, 0x1, 0x8000]),
    localhostNodePorts: localhost,
    gates: { nftablesCompact: mode === "nftables" && random.chance(40) },
    facts: { ...base.facts, nfacct: random.chance(50), randomFully: random.chance(50) },
  });
  return { context, here: { localAddresses: new Set(own) } };
}

export function randomSnapshot(random: Random, context: Context): Snapshot {
  const raw = Array.from({ length: 1 + random.below(8) }, (_, i) => odd(random, randomService(random, i), context));
  const serviceCIDRs = random.chance(60) ? ["10.96.0.0/16", "fd00:10:96::/112"] : [];
  return { ...snapshotOf(raw), serviceCIDRs };
}

/** Ranges that hold the node or pods, endpoints that are the node itself, external IPs that are the node's. */
function odd(random: Random, raw: RawService, context: Context): RawService {
  const spec = { ...(raw.service["spec"] as Record<string, unknown>) };
  const ranges = spec["loadBalancerSourceRanges"] as readonly string[];
  if (ranges.length > 0)
    spec["loadBalancerSourceRanges"] = [
      ...ranges,
      ...(random.chance(30) ? ["192.168.0.0/24", "fd00:192:168::/64"] : []),
      ...(random.chance(30) ? ["10.244.0.0/16", "fd00:10:244::/56"] : []),
      ...(random.chance(10) ? ["0.0.0.0/0", "::/0"] : []),
    ];
  const externalIPs = spec["externalIPs"] as readonly string[];
  if (externalIPs.length > 0 && random.chance(20)) spec["externalIPs"] = [...externalIPs, second[context.family.name]];
  const ports = spec["ports"] as readonly Record<string, unknown>[];
  // A port with the number of somebody's node port, and addresses that are the node's own or another Service's.
  if (random.chance(12)) spec["ports"] = ports.map((port, i) => ({ ...port, port: 30000 + 2 * random.below(6) + i }));
  const status = odderStatus(random, raw, context);
  const slices = raw.slices.map((slice) => {
    if (slice["addressType"] !== context.family.name || !random.chance(15)) return slice;
    const host = { addresses: [context.nodeIP], nodeName: "node-1", conditions: { ready: true } };
    return { ...slice, endpoints: [...(slice["endpoints"] as unknown[]), host] };
  });
  return { service: { ...raw.service, spec, status }, slices };
}

function odderStatus(random: Random, { service }: RawService, context: Context): unknown {
  const status = service["status"] as { loadBalancer: { ingress: readonly { ip: string; ipMode: string }[] } };
  const { ingress } = status.loadBalancer;
  if (ingress.length === 0 || !random.chance(30)) return status;
  const four = context.family.name === "IPv4";
  const shared = four ? "203.0.113.99" : "2001:db8:3::99";
  const ip = random.pick([shared, shared, second[context.family.name], four ? "10.96.0.1" : "fd00:10:96::2"]);
  return { loadBalancer: { ingress: [...ingress, { ip, ipMode: "VIP" }] } };
}

export function randomPackets(
  random: Random,
  plan: Plan,
  context: Context,
  here: Here,
  count: number,
): readonly Packet[] {
  const ports = [...plan.services.values()].flatMap((s) => s.ports);
  return Array.from({ length: count }, () => {
    const port = ports.length === 0 || random.chance(5) ? undefined : random.pick(ports);
    const to = destination(random, port, context, here, plan);
    return { from: source(random, port, context, here), to };
  });
}

// --- internal ---

const protocols: readonly Protocol[] = ["tcp", "udp", "sctp"];

function destination(
  random: Random,
  port: PortPlan | undefined,
  context: Context,
  here: Here,
  plan: Plan,
): Packet["to"] {
  const four = context.family.name === "IPv4";
  if (port === undefined) {
    const ip = random.pick(four ? ["10.96.77.7", "10.244.1.5", "8.8.8.8"] : ["fd00:10:96::7777", "fd00:10:244:1::5"]);
    return { ip, port: random.pick([80, 53, 30000]), protocol: random.pick(protocols) };
  }
  const loopback = four ? random.pick(["127.0.0.1", "127.0.0.2"]) : "::1";
  const nodeAddresses = [...here.localAddresses, ...here.localAddresses, loopback];
  const addresses = [port.clusterIP, ...port.externalIPs, ...port.loadBalancerIPs];
  const nodePort = port.nodePort !== 0 && random.chance(50);
  const right = random.chance(88);
  const checks = [...plan.services.values()].flatMap((s) => (s.healthCheck === undefined ? [] : [s.healthCheck.port]));
  const wrong = checks.length > 0 && random.chance(40) ? random.pick(checks) : random.pick([81, 8080, 31999]);
  return {
    ip: random.pick(nodePort ? nodeAddresses : addresses),
    port: right ? (nodePort ? port.nodePort : port.port) : wrong,
    protocol: right || random.chance(50) ? port.protocol : random.pick(protocols),
  };
}

function source(random: Random, port: PortPlan | undefined, context: Context, here: Here): Source {
  const four = context.family.name === "IPv4";
  const node: Source = { kind: "node", ip: context.nodeIP, assumed: true };
  const pods = four ? ["10.244.1.77", "10.244.2.9"] : ["fd00:10:244:1::77", "fd00:10:244:2::9"];
  const endpoints = (port?.endpoints ?? []).map((e) => e.ip).filter((ip) => !here.localAddresses.has(ip));
  const outside = four ? ["198.51.100.7", "203.0.113.7"] : ["2001:db8:2::7", "2001:db8:9::7"];
  switch (random.below(4)) {
    case 0:
      return node;
    case 1:
      return { kind: "external", ip: random.pick(outside), assumed: false };
    case 2:
      // A pod of another node that comes by the network's interface, endpoint or not.
      return { kind: random.pick(["pod", "external"]), ip: random.pick([...pods, ...endpoints]), assumed: false };
    default:
      return { kind: "pod", ip: random.pick([...endpoints, ...endpoints, ...pods]), assumed: false };
  }
}
