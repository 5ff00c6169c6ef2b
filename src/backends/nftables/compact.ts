/** The compact layout's objects of one Service: elements of shared maps, and chains of its own only for affinity and source ranges. */
import type { Context } from "../../model/context.ts";
import type { Endpoint, PortPlan, ServicePlan } from "../../model/plan.ts";
import type { NftElement } from "../../tools/nft.ts";
import { balancerName, type FrontendKind, indexedMap, outsideName } from "./compact-base.ts";
import { portName } from "./names.ts";
import { firewallChain, frontendElements, standardPort, type Ways } from "./service.ts";
import type { Objects } from "./state.ts";

/** The compact layout of one port. Affinity needs a set and a chain for each endpoint: such a port is as in the standard layout. */
export function compactPort(plan: ServicePlan, port: PortPlan, context: Context): Objects {
  if (port.affinitySeconds > 0) return standardPort(plan, port, context);
  const firewall = firewallChain(portName(plan, port), port, context);
  const frontends = frontendElements(port, waysOf(port), firewall?.name, context);
  return {
    chains: firewall === undefined ? [] : [firewall],
    sets: [],
    elements: [...frontends, ...endpointElements(port)],
  };
}

// --- internal ---

function waysOf(port: PortPlan): Ways {
  const internal = internalList(port);
  return {
    internal: internal.length === 0 ? undefined : balancerName("address", port.protocol, internal.length, false),
    address: outsideWay("address", port),
    nodePort: outsideWay("nodePort", port),
  };
}

/** A cluster IP has one list, whatever its policy: it needs no second map. */
function internalList(port: PortPlan): readonly Endpoint[] {
  if (port.internal === "cluster") return port.clusterEndpoints;
  return port.internal === "local" ? port.localEndpoints : [];
}

function outsideWay(kind: FrontendKind, port: PortPlan): string {
  const local = port.externalLocal ? outsideLocal(port).length : undefined;
  return outsideName(kind, port.protocol, outsideAll(port).length, local);
}

function outsideAll(port: PortPlan): readonly Endpoint[] {
  return port.external === "cluster" || port.externalLocal ? port.clusterEndpoints : [];
}

function outsideLocal(port: PortPlan): readonly Endpoint[] {
  return port.external === "local" ? port.localEndpoints : [];
}

function endpointElements(port: PortPlan): readonly NftElement[] {
  const out: NftElement[] = [];
  const list = (set: string, frontend: string, endpoints: readonly Endpoint[]): void => {
    for (const [i, { ip, port: number }] of endpoints.entries())
      out.push({ set, key: `${frontend} . ${i}`, value: `${ip} . ${number}` });
  };
  list(indexedMap("address", port.protocol, false), `${port.clusterIP} . ${port.port}`, internalList(port));
  if (port.endpoints.length === 0) return out;
  const outside = (kind: FrontendKind, frontend: string): void => {
    list(indexedMap(kind, port.protocol, false), frontend, outsideAll(port));
    if (port.externalLocal) list(indexedMap(kind, port.protocol, true), frontend, outsideLocal(port));
  };
  for (const ip of [...port.externalIPs, ...port.loadBalancerIPs]) outside("address", `${ip} . ${port.port}`);
  if (port.nodePort > 0) outside("nodePort", `${port.nodePort}`);
  return out;
}
