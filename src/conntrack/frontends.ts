/** UDP frontends of a plan: every address and port that clients send to, with the endpoints that may answer there. */
import type { Context } from "../model/context.ts";
import { isLoopback } from "../model/ip.ts";
import type { Plan, PortPlan, ServicePlan } from "../model/plan.ts";

/** Who owns a frontend now. */
export interface Owner {
  /** `namespace/name` or `namespace/name:port`. */
  readonly name: string;
  /** `ip port` of every serving endpoint, whatever the traffic policies choose now: flows to those are healthy. */
  readonly backends: ReadonlySet<string>;
}

/** `ip port` for addresses, ` port` for node ports. */
export type FrontendKey = string;

export interface Frontends {
  readonly owners: ReadonlyMap<FrontendKey, Owner>;
  /**
   * Whether node ports answer on this address. `translated`: the flow does go to some endpoint; then the node IP counts
   * even while no interface has it (an address that just went away, a node IP that is translated outside).
   */
  readonly isNodePortAddress: (ip: string, translated: boolean) => boolean;
}

export function addressKey(ip: string, port: number): FrontendKey {
  return `${ip} ${port}`;
}

export function nodePortKey(port: number): FrontendKey {
  return ` ${port}`;
}

/** All UDP frontends of one family's plan. */
export function frontendsOf(plan: Plan, context: Context): Frontends {
  const owners = new Map<FrontendKey, Owner>();
  for (const service of plan.services.values()) {
    for (const port of service.ports) {
      if (port.protocol !== "udp") continue;
      const owner = { name: port.name, backends: servingBackends(port) };
      for (const key of frontendKeys(port)) owners.set(key, owner);
    }
  }
  return { owners, isNodePortAddress: nodePortMatcher(context) };
}

export function hasUdp(service: ServicePlan | undefined): boolean {
  return service?.ports.some((port) => port.protocol === "udp") ?? false;
}

export function frontendKeys(port: PortPlan): readonly FrontendKey[] {
  const addresses = [port.clusterIP, ...port.externalIPs, ...port.loadBalancerIPs];
  const keys = addresses.map((ip) => addressKey(ip, port.port));
  return port.nodePort === 0 ? keys : [...keys, nodePortKey(port.nodePort)];
}

/** A UDP Service differs between the plans, which lets a flow become stale. One pointer comparison a Service. */
export function udpChanged(previous: Plan, next: Plan): boolean {
  if (previous === next) return false;
  // Side by side while the keys are the same, which is mostly all: looking 10,000 keys up takes milliseconds.
  const old = previous.services.values();
  let inStep = true;
  for (const [key, service] of next.services) {
    const beside: ServicePlan | undefined = inStep ? old.next().value : undefined;
    inStep &&= beside?.key === key;
    const before = inStep ? beside : previous.services.get(key);
    if (before !== service && (hasUdp(service) || hasUdp(before))) return true;
  }
  if (inStep && previous.services.size === next.services.size) return false;
  for (const [key, before] of previous.services) if (!next.services.has(key) && hasUdp(before)) return true;
  return false;
}

/** Frontends of changed and removed Services that the new plan gives to nobody, with the name of the port they were of. */
export function retiredFrontends(previous: Plan, next: Plan, current: Frontends): ReadonlyMap<FrontendKey, string> {
  const retired = new Map<FrontendKey, string>();
  for (const [key, before] of previous.services) {
    if (next.services.get(key) === before) continue;
    for (const port of before.ports) {
      if (port.protocol !== "udp") continue;
      for (const frontend of frontendKeys(port)) {
        if (!current.owners.has(frontend)) retired.set(frontend, port.name);
      }
    }
  }
  return retired;
}

// --- internal ---

function servingBackends(port: PortPlan): ReadonlySet<string> {
  const backends = new Set<string>();
  for (const list of [port.endpoints, port.unused]) {
    for (const endpoint of list) {
      if (endpoint.serving || endpoint.ready) backends.add(addressKey(endpoint.ip, endpoint.port));
    }
  }
  return backends;
}

/** Only iptables mode serves node ports on 127.0.0.0/8; no mode does on ::1. A flow there is some local program's. */
function nodePortMatcher(context: Context): Frontends["isNodePortAddress"] {
  const { nodePorts, mode, family, localhostNodePorts, nodeIP } = context;
  const addresses = new Set(nodePorts.addresses);
  const loopback = nodePorts.loopback && localhostNodePorts && mode === "iptables" && family.name === "IPv4";
  return (ip, translated) => addresses.has(ip) || (translated && ip === nodeIP) || (loopback && isLoopback(ip));
}
