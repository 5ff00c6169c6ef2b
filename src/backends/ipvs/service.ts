/** One ServicePlan as virtual servers, addresses of kube-ipvs0 and set elements. */
import type { Context } from "../../model/context.ts";
import { cidrContains, joinHostPort } from "../../model/ip.ts";
import type { Endpoint, PortPlan, ServicePlan } from "../../model/plan.ts";
import { ipPort } from "../../tools/ipset.ts";
import { type ServerOptions, serverKey } from "../../tools/ipvsadm.ts";
import type { SetKey } from "./names.ts";
import type { Element, OutFilter, Rendered, VirtualServer } from "./state.ts";

/** Everything that this Service asks of the kernel. */
export function renderService(plan: ServicePlan, context: Context): Rendered {
  const draft: Draft = { servers: new Map(), addresses: new Set(), elements: new Map(), outFilters: [] };
  for (const port of plan.ports) {
    const options = serverOptions(port, context);
    addLoopBack(draft, port);
    addClusterIP(draft, port, options);
    const external = reals(endpointsFor(port.externalLocal, port));
    for (const ip of port.externalIPs) addExternalIP(draft, port, ip, options, external);
    for (const ip of port.loadBalancerIPs) addLoadBalancerIP(draft, port, ip, options, external, context);
    if (port.nodePort !== 0) addNodePort(draft, port, options, external, context);
  }
  if (plan.healthCheck !== undefined) addElement(draft, "HEALTH-CHECK-NODE-PORT", `${plan.healthCheck.port}`);
  // An address that an interface of the node has is local already; as one of ours, all other ports on it were rejected.
  for (const ip of context.nodePorts.addresses) draft.addresses.delete(ip);
  for (const ip of draft.addresses) addElement(draft, "IPVS-IPS", ip);
  const sets = new Set([...draft.elements.values()].map((e) => e.set));
  return { plan, ...draft, sets, addresses: [...draft.addresses] };
}

// --- internal ---

interface Draft {
  readonly servers: Map<string, VirtualServer>;
  readonly addresses: Set<string>;
  readonly elements: Map<string, Element>;
  readonly outFilters: OutFilter[];
}

type Reals = ReadonlyMap<string, number>;

/**
 * With a Local policy and no endpoint here, the cluster's serve, where the plan has a list of them: pods of this node
 * reach an address of their Service all the same (kubernetes#97081; recorded for both policies).
 */
function endpointsFor(local: boolean, port: PortPlan): readonly Endpoint[] {
  return local && port.localEndpoints.length > 0 ? port.localEndpoints : port.clusterEndpoints;
}

function reals(endpoints: readonly Endpoint[]): Reals {
  return new Map(endpoints.map((e) => [joinHostPort(e.ip, e.port), 1]));
}

/** With `mh`, connections of a draining server must fall back to another one (kubernetes PR 138688). */
function serverOptions(port: PortPlan, context: Context): ServerOptions {
  const { scheduler } = context.ipvs;
  return {
    scheduler,
    schedulerFlags: scheduler === "mh" ? ["mh-fallback", "mh-port"] : [],
    persistence: port.affinitySeconds,
    netmask: undefined,
  };
}

function addElement(draft: Draft, set: SetKey, entry: string): void {
  draft.elements.set(`${set} ${entry}`, { set, entry });
}

function addServer(draft: Draft, port: PortPlan, ip: string, at: number, options: ServerOptions, to: Reals): void {
  const id = { protocol: port.protocol, ip, port: at };
  draft.servers.set(serverKey(id), { id, options, reals: to });
}

/** An endpoint that reaches itself through its Service must be masqueraded, whatever its readiness. */
function addLoopBack(draft: Draft, port: PortPlan): void {
  const add = (e: Endpoint): void => {
    if (e.local) addElement(draft, "LOOP-BACK", `${ipPort(e.ip, port.protocol, e.port)},${e.ip}`);
  };
  port.endpoints.forEach(add);
  port.unused.forEach(add);
}

function addClusterIP(draft: Draft, port: PortPlan, options: ServerOptions): void {
  addElement(draft, "CLUSTER-IP", ipPort(port.clusterIP, port.protocol, port.port));
  draft.addresses.add(port.clusterIP);
  const to = reals(endpointsFor(port.internalLocal, port));
  addServer(draft, port, port.clusterIP, port.port, options, to);
}

function addExternalIP(draft: Draft, port: PortPlan, ip: string, options: ServerOptions, to: Reals): void {
  addElement(draft, port.externalLocal ? "EXTERNAL-IP-LOCAL" : "EXTERNAL-IP", ipPort(ip, port.protocol, port.port));
  draft.addresses.add(ip);
  addServer(draft, port, ip, port.port, options, to);
}

function addLoadBalancerIP(
  draft: Draft,
  port: PortPlan,
  ip: string,
  options: ServerOptions,
  to: Reals,
  context: Context,
): void {
  const entry = ipPort(ip, port.protocol, port.port);
  addElement(draft, "LOAD-BALANCER", entry);
  if (port.externalLocal) addElement(draft, "LOAD-BALANCER-LOCAL", entry);
  if (isRestricted(port.sourceRanges)) addSourceRanges(draft, port, ip, entry, context);
  draft.addresses.add(ip);
  addServer(draft, port, ip, port.port, options, to);
}

/** A range with a zero prefix lets everyone in (and the kernel's hash:ip,port,net cannot hold it). */
function isRestricted(ranges: readonly string[]): boolean {
  return ranges.length > 0 && !ranges.some((cidr) => cidr.endsWith("/0"));
}

function addSourceRanges(draft: Draft, port: PortPlan, ip: string, entry: string, context: Context): void {
  addElement(draft, "LOAD-BALANCER-FW", entry);
  for (const cidr of port.sourceRanges) addElement(draft, "LOAD-BALANCER-SOURCE-CIDR", `${entry},${bareHost(cidr)}`);
  // The node talks to a load-balancer address with that very address as its source, since kube-ipvs0 holds it.
  if (port.sourceRanges.some((cidr) => cidrContains(cidr, context.nodeIP))) {
    addElement(draft, "LOAD-BALANCER-SOURCE-IP", `${entry},${ip}`);
  } else {
    draft.outFilters.push({ id: { protocol: port.protocol, ip, port: port.port } });
  }
}

/** ipset prints a network of one host without its prefix length. */
function bareHost(cidr: string): string {
  const [ip = "", bits] = cidr.split("/");
  return bits === (ip.includes(":") ? "128" : "32") ? ip : cidr;
}

function addNodePort(draft: Draft, port: PortPlan, options: ServerOptions, to: Reals, context: Context): void {
  const sets: readonly SetKey[] = port.externalLocal
    ? nodePortSets[port.protocol]
    : nodePortSets[port.protocol].slice(0, 1);
  for (const ip of context.nodePorts.addresses) {
    addServer(draft, port, ip, port.nodePort, options, to);
    if (port.protocol !== "sctp") continue;
    for (const set of sets) addElement(draft, set, ipPort(ip, port.protocol, port.nodePort));
  }
  if (port.protocol === "sctp" || context.nodePorts.addresses.length === 0) return;
  for (const set of sets) addElement(draft, set, `${port.nodePort}`);
}

/** The set of all node ports of a protocol, then that of those with external policy Local. */
const nodePortSets: Readonly<Record<PortPlan["protocol"], readonly SetKey[]>> = {
  tcp: ["NODE-PORT-TCP", "NODE-PORT-LOCAL-TCP"],
  udp: ["NODE-PORT-UDP", "NODE-PORT-LOCAL-UDP"],
  // Ports of SCTP are kept with their address: a bitmap:port cannot tell its protocol in a packet.
  sctp: ["NODE-PORT-SCTP-HASH", "NODE-PORT-LOCAL-SCTP-HASH"],
};
