/** The plan of one Service in one family: addresses of the family, endpoint lists, and the fate of each kind of traffic. */
import type { Context } from "./context.ts";
import { type EndpointLists, endpointLists } from "./endpoints.ts";
import { familyOf } from "./ip.ts";
import type { Endpoint, Fate, PortPlan, ServicePlan } from "./plan.ts";
import type { ServicePort } from "./service.ts";
import type { ServiceInput } from "./snapshot.ts";

/**
 * Every decision about one Service in one family; undefined when it has no cluster IP of this family. The two traffic
 * policies are independent of each other (kubernetes#105470); a Local policy drops where only other nodes have endpoints and
 * rejects where nobody has (kubernetes#121371).
 */
export function planService(input: ServiceInput, context: Context): ServicePlan | undefined {
  const { service } = input;
  const own = (ips: readonly string[]): readonly string[] => ips.filter((ip) => familyOf(ip) === context.family.name);
  const clusterIP = own(service.clusterIPs)[0];
  if (clusterIP === undefined) return undefined;
  const ranges = own(service.sourceRanges);
  const loadBalancerIPs = own(service.loadBalancerIPs).filter((ip) => ip !== clusterIP);
  const addresses: Addresses = {
    clusterIP,
    loadBalancerIPs,
    // An address that is both is a load-balancer address: source ranges must keep guarding it.
    externalIPs: own(service.externalIPs).filter((ip) => ip !== clusterIP && !loadBalancerIPs.includes(ip)),
    // A range that holds everyone restricts nobody.
    sourceRanges: ranges.includes(context.family.any) ? [] : ranges,
  };
  const ports = service.ports.map((port) => planPort(input, port, addresses, context));
  return {
    key: service.key,
    namespace: service.namespace,
    name: service.name,
    input,
    ports,
    healthCheck:
      service.healthCheckNodePort === 0
        ? undefined
        : { port: service.healthCheckNodePort, localEndpoints: localReady(ports) },
    endpointCount: ports.reduce((n, p) => n + p.endpoints.length, 0),
  };
}

// --- internal ---

interface Addresses {
  readonly clusterIP: string;
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  readonly sourceRanges: readonly string[];
}

function planPort(input: ServiceInput, port: ServicePort, addresses: Addresses, context: Context): PortPlan {
  const { service } = input;
  const { internalLocal, externalLocal } = service;
  const exposed = port.nodePort !== 0 || addresses.externalIPs.length > 0 || addresses.loadBalancerIPs.length > 0;
  // An exposed Service always needs the cluster list: pods and the node short-circuit to it.
  const uses = { cluster: !internalLocal || exposed, local: internalLocal || (externalLocal && exposed) };
  const lists = endpointLists(input, port, context, context.family.name, uses);
  return {
    name: port.name === "" ? service.key : `${service.key}:${port.name}`,
    portName: port.name,
    protocol: port.protocol,
    port: port.port,
    nodePort: port.nodePort,
    ...addresses,
    affinitySeconds: service.affinitySeconds,
    internal: fate(internalLocal, lists),
    external: fate(externalLocal, lists),
    internalLocal,
    externalLocal,
    exposed,
    usesCluster: uses.cluster,
    usesLocal: uses.local,
    clusterEndpoints: lists.cluster,
    localEndpoints: lists.local,
    endpoints: lists.reachable,
    unused: lists.unused,
  };
}

function fate(local: boolean, lists: EndpointLists): Fate {
  if (!lists.any) return "reject";
  if (local) return lists.local.length > 0 ? "local" : "drop";
  return lists.cluster.length > 0 ? "cluster" : "reject";
}

/** Distinct ready local endpoint addresses over all ports, as the load balancer's weight. */
function localReady(ports: readonly PortPlan[]): number {
  const ips = new Set<string>();
  const collect = (e: Endpoint): void => {
    if (e.local && e.ready) ips.add(e.ip);
  };
  for (const p of ports) p.localEndpoints.forEach(collect);
  return ips.size;
}
