/** The standard layout's objects of one Service: its chains, affinity sets, and elements in the shared maps. */
import type { Context } from "../../model/context.ts";
import { cidrContains } from "../../model/ip.ts";
import type { Endpoint, Fate, PortPlan, ServicePlan } from "../../model/plan.ts";
import type { NftChain, NftElement, NftRule, NftSet } from "../../tools/nft.ts";
import * as rule from "../../tools/nft-rule.ts";
import { LOCALHOST_PORTS, rejectLocalhost } from "./localhost.ts";
import { endpointName, isShared, portName } from "./names.ts";
import { type Objects, type ServiceObjects, sharedSets } from "./state.ts";

/** The Context's fields that a Service's objects depend on, as one comparable text. */
export function serviceSettings(context: Context): string {
  const { family, detectLocal, masqueradeMark, localhostNodePorts, nodeIP, gates } = context;
  return JSON.stringify([family.name, detectLocal, masqueradeMark, localhostNodePorts, nodeIP, gates.nftablesCompact]);
}

/** What one port of a Service adds to our table. */
export type PortObjects = (plan: ServicePlan, port: PortPlan, context: Context) => Objects;

/** Everything that one Service adds to our table. */
export function serviceObjects(plan: ServicePlan, context: Context, portObjects: PortObjects): ServiceObjects {
  // Keyed, so that two ports of one Service that claim the same thing never make a transaction that the kernel refuses.
  const chains = new Map<string, NftChain>();
  const sets = new Map<string, NftSet>();
  const elements = new Map<string, NftElement>();
  for (const port of plan.ports) {
    const parts = portObjects(plan, port, context);
    for (const chain of parts.chains) if (!chains.has(chain.name)) chains.set(chain.name, chain);
    for (const set of parts.sets) if (!sets.has(set.name)) sets.set(set.name, set);
    for (const element of parts.elements) {
      const key = `${element.set} ${element.key}`;
      if (!elements.has(key)) elements.set(key, element);
    }
  }
  const parts = {
    chains: [...chains.values()],
    sets: [...sets.values()],
    elements: commonFirst([...elements.values()]),
  };
  return { plan, ...parts, shared: sharedBy(parts) };
}

/** Those that other Services may also want stand first: who looks for them need not see all. */
function commonFirst(elements: readonly NftElement[]): readonly NftElement[] {
  const common = elements.filter(({ set }) => sharedSets.has(set));
  return [...common, ...elements.filter(({ set }) => !sharedSets.has(set))];
}

/** Chains shared with other Services that a Service's elements lead to. */
function sharedBy({ elements }: Objects): readonly string[] {
  const names = new Set<string>();
  for (const { value } of elements) {
    const name = value?.startsWith("goto ") === true ? value.slice(5) : "";
    if (isShared(name)) names.add(name);
  }
  return [...names];
}

/** The standard layout of one port. */
export function standardPort(plan: ServicePlan, port: PortPlan, context: Context): Objects {
  const name = portName(plan, port);
  const chains: NftChain[] = [];
  const sets: NftSet[] = [];
  const { clusterEndpoints, localEndpoints } = port;
  if (port.usesCluster && clusterEndpoints.length > 0)
    chains.push({ name: `service-${name}`, rules: balance(plan, port, clusterEndpoints, context) });
  if (port.usesLocal && localEndpoints.length > 0)
    chains.push({ name: `local-${name}`, rules: balance(plan, port, localEndpoints, context) });
  if (port.exposed && port.endpoints.length > 0)
    chains.push({
      name: `external-${name}`,
      rules: externalRules(context, {
        local: port.externalLocal,
        cluster: port.usesCluster && clusterEndpoints.length > 0 ? `service-${name}` : undefined,
        target: chainOf(port.external, name),
      }),
    });
  const firewall = firewallChain(name, port, context);
  if (firewall !== undefined) chains.push(firewall);
  if (port.affinitySeconds > 0)
    for (const endpoint of port.endpoints)
      addAffinity(endpointName(plan, port, endpoint), port, endpoint, context, chains, sets);
  const external = `external-${name}`;
  const ways = { internal: chainOf(port.internal, name), address: external, nodePort: external };
  return { chains, sets, elements: frontendElements(port, ways, firewall?.name, context) };
}

/** Rules that choose one of the endpoints, remembered clients first. */
function balance(
  plan: ServicePlan,
  port: PortPlan,
  endpoints: readonly Endpoint[],
  { family }: Context,
): readonly NftRule[] {
  if (port.affinitySeconds === 0) return [{ expression: rule.dnatToOneOf(family, port.protocol, endpoints) }];
  const names = endpoints.map((endpoint) => endpointName(plan, port, endpoint));
  const remembered = names.map((name) => ({
    expression: rule.goToIfRemembered(family, `affinity-${name}`, `endpoint-${name}`),
  }));
  return [...remembered, { expression: rule.goToOneOf(names.map((name) => `endpoint-${name}`)) }];
}

function addAffinity(
  name: string,
  port: PortPlan,
  endpoint: Endpoint,
  { family }: Context,
  chains: NftChain[],
  sets: NftSet[],
): void {
  const set = `affinity-${name}`;
  sets.push({ kind: "set", name: set, type: family.nftType, dynamicTimeout: port.affinitySeconds });
  chains.push({
    name: `endpoint-${name}`,
    rules: [{ expression: rule.remember(family, set) }, { expression: rule.dnatTo(port.protocol, endpoint) }],
  });
}

/** Where traffic from outside goes on to. */
export interface OutsideWay {
  /** A Local policy. */
  readonly local: boolean;
  /** Chain that chooses among all endpoints, if there are any. */
  readonly cluster: string | undefined;
  /** Chain that chooses by the policy; undefined: it ends in a no-endpoint map. */
  readonly target: string | undefined;
}

/** Traffic to node ports, external and load-balancer addresses. */
export function externalRules(context: Context, { local, cluster, target }: OutsideWay): readonly NftRule[] {
  const { family, masqueradeMark } = context;
  const mark = rule.setMark(masqueradeMark);
  const rules: NftRule[] = [];
  if (!local) {
    // The endpoint may be on another node and answer past this one.
    rules.push({ expression: mark, comment: "masquerade" });
  } else if (cluster !== undefined) {
    // Pods and the node itself are not "outside": a Local policy does not cut them off from other nodes' endpoints.
    const pods = rule.fromPods(family, context.detectLocal, false);
    const go = rule.goTo(cluster);
    if (pods !== undefined) rules.push({ expression: `${pods} ${go}`, comment: "short-circuit pod traffic" });
    const node = "fib saddr type local";
    rules.push({ expression: `${node} ${mark}`, comment: "masquerade local traffic" });
    rules.push({ expression: `${node} ${go}`, comment: "short-circuit local traffic" });
  }
  if (target !== undefined) rules.push({ expression: rule.goTo(target) });
  return rules;
}

/** The chain where traffic of this fate goes; undefined: it ends in a no-endpoint map. */
function chainOf(fate: Fate, name: string): string | undefined {
  if (fate === "cluster") return `service-${name}`;
  return fate === "local" ? `local-${name}` : undefined;
}

/** Keeps strangers from the load-balancer addresses; undefined: everyone may come. */
export function firewallChain(name: string, port: PortPlan, context: Context): NftChain | undefined {
  const ranges = firewallRanges(port, context);
  if (ranges === undefined) return undefined;
  return { name: `firewall-${name}`, rules: [{ expression: rule.dropUnlessFrom(context.family, ranges) }] };
}

/**
 * Who may come to the load-balancer addresses; undefined: everyone. A range that holds this node also admits the
 * addresses themselves: what the node sends to one of them may have it as its source.
 */
function firewallRanges(port: PortPlan, context: Context): readonly string[] | undefined {
  const { sourceRanges: ranges, loadBalancerIPs } = port;
  if (ranges.length === 0 || loadBalancerIPs.length === 0) return undefined;
  return ranges.some((range) => cidrContains(range, context.nodeIP)) ? [...ranges, ...loadBalancerIPs] : ranges;
}

/** Chains that the frontends of a port lead to. */
export interface Ways {
  /** Of the cluster IP; undefined: refused. */
  readonly internal: string | undefined;
  /** Of external and load-balancer addresses. */
  readonly address: string;
  readonly nodePort: string;
}

/** The port's elements in the maps and sets of frontends. */
export function frontendElements(
  port: PortPlan,
  ways: Ways,
  firewall: string | undefined,
  context: Context,
): readonly NftElement[] {
  const { protocol } = port;
  const out: NftElement[] = [{ set: "cluster-ips", key: port.clusterIP }];
  const frontend = (ip: string) => `${ip} . ${protocol} . ${port.port}`;
  const { internal } = ways;
  if (internal === undefined) out.push(refusal("no-endpoint-services", frontend(port.clusterIP), port.internal, port));
  else out.push({ set: "service-ips", key: frontend(port.clusterIP), value: rule.goTo(internal) });

  const served = port.endpoints.length > 0;
  const refused = port.external === "drop" || port.external === "reject";
  for (const ip of [...port.externalIPs, ...port.loadBalancerIPs]) {
    if (served) out.push({ set: "service-ips", key: frontend(ip), value: rule.goTo(ways.address) });
    if (refused) out.push(refusal("no-endpoint-services", frontend(ip), port.external, port));
  }
  if (firewall !== undefined)
    for (const ip of port.loadBalancerIPs)
      out.push({ set: "firewall-ips", key: frontend(ip), value: rule.goTo(firewall) });
  if (port.nodePort > 0) {
    const key = `${protocol} . ${port.nodePort}`;
    if (served) out.push({ set: "service-nodeports", key, value: rule.goTo(ways.nodePort) });
    if (refused) out.push(refusal("no-endpoint-nodeports", key, port.external, port));
    if (context.localhostNodePorts && protocol !== "tcp")
      out.push({ set: LOCALHOST_PORTS, key, value: rejectLocalhost });
  }
  for (const endpoint of port.endpoints)
    if (endpoint.local)
      out.push({ set: "hairpin-connections", key: `${endpoint.ip} . ${endpoint.ip} . ${protocol} . ${endpoint.port}` });
  return out;
}

const rejected = rule.goTo("reject-chain");

function refusal(set: string, key: string, fate: Fate, port: PortPlan): NftElement {
  return { set, key, value: fate === "drop" ? "drop" : rejected, comment: port.name };
}
