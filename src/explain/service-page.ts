/** One Service on this node: its addresses, the endpoints used and left out with reasons, policies, health check, conflicts. */
import type { Context } from "../model/context.ts";
import type { SliceEndpoint } from "../model/endpoint-slice.ts";
import type { FamilyName } from "../model/family.ts";
import { joinHostPort } from "../model/ip.ts";
import type { Endpoint, Fate, Plan, PortPlan, ServicePlan } from "../model/plan.ts";
import type { Service } from "../model/service.ts";

export interface EndpointLine {
  /** `10.244.1.5:8080`. */
  readonly address: string;
  readonly local: boolean;
  /** Empty when the slice does not say. */
  readonly nodeName: string;
  /** In the list for cluster-wide traffic. */
  readonly cluster: boolean;
  /** In the list for Local policies. */
  readonly localList: boolean;
  /** Why it is in no list; empty when it is in one. */
  readonly leftOut: string;
}

export interface PortPage {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  /** 0: none. */
  readonly nodePort: number;
  /** What happens to traffic to the cluster IP, and to traffic from outside; undefined: there are no outside addresses. */
  readonly internal: Fate;
  readonly external: Fate | undefined;
  readonly endpoints: readonly EndpointLine[];
}

export interface FamilyPage {
  readonly family: FamilyName;
  readonly clusterIP: string;
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  readonly sourceRanges: readonly string[];
  readonly ports: readonly PortPage[];
  /** Ready endpoints here, as load balancers are told; undefined: no health check node port. */
  readonly healthCheck: ServicePlan["healthCheck"];
  /** One line each: addresses or node ports that two Services claim, this one among them. */
  readonly conflicts: readonly string[];
}

export interface ServicePage {
  readonly service: string;
  readonly nodeName: string;
  readonly zone: string;
  readonly mode: Context["mode"];
  readonly internalTrafficPolicy: "Cluster" | "Local";
  readonly externalTrafficPolicy: "Cluster" | "Local";
  /** Seconds; 0: none. */
  readonly affinitySeconds: number;
  readonly families: readonly FamilyPage[];
}

export interface PlannedFamily {
  readonly context: Context;
  readonly plan: Plan;
}

/** Undefined when no family has the Service. */
export function explainService(key: string, planned: readonly PlannedFamily[]): ServicePage | undefined {
  const found = planned.flatMap(({ context, plan }) => {
    const service = plan.services.get(key);
    return service === undefined ? [] : [{ context, plan, service }];
  });
  const [first] = found;
  if (first === undefined) return undefined;
  const { service } = first.service.input;
  return {
    service: key,
    nodeName: first.context.nodeName,
    zone: first.context.zone,
    mode: first.context.mode,
    internalTrafficPolicy: service.internalLocal ? "Local" : "Cluster",
    externalTrafficPolicy: service.externalLocal ? "Local" : "Cluster",
    affinitySeconds: service.affinitySeconds,
    families: found.map((one) => familyPage(one.service, one.plan, one.context)),
  };
}

// --- internal ---

function familyPage(plan: ServicePlan, whole: Plan, context: Context): FamilyPage {
  const [port] = plan.ports;
  const names = new RegExp(`(^|\\s)${plan.key.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}([\\s:]|$)`);
  return {
    family: context.family.name,
    clusterIP: port?.clusterIP ?? "",
    externalIPs: port?.externalIPs ?? [],
    loadBalancerIPs: port?.loadBalancerIPs ?? [],
    sourceRanges: port?.sourceRanges ?? [],
    ports: plan.ports.map((p) => portPage(plan, p, context)),
    healthCheck: plan.healthCheck,
    conflicts: whole.conflicts.filter((line) => names.test(line)),
  };
}

function portPage(plan: ServicePlan, port: PortPlan, context: Context): PortPage {
  const all = [...port.endpoints, ...port.unused].sort((a, b) => (address(a) < address(b) ? -1 : 1));
  return {
    name: port.name,
    protocol: port.protocol,
    port: port.port,
    nodePort: port.nodePort,
    internal: port.internal,
    external: port.exposed ? port.external : undefined,
    endpoints: all.map((e) => {
      const slice = sliceOf(plan, e);
      const cluster = port.clusterEndpoints.includes(e);
      const localList = port.localEndpoints.includes(e);
      return {
        address: address(e),
        local: e.local,
        nodeName: slice?.nodeName ?? "",
        cluster,
        localList,
        leftOut: cluster || localList ? "" : reason(e, port, plan.input.service, slice, context),
      };
    }),
  };
}

function address(e: Endpoint): string {
  return joinHostPort(e.ip, e.port);
}

function sliceOf(plan: ServicePlan, e: Endpoint): SliceEndpoint | undefined {
  for (const slice of plan.input.slices) {
    const found = slice.endpoints.find((one) => one.ip === e.ip && one.ready === e.ready);
    if (found !== undefined) return found;
  }
  return undefined;
}

function reason(
  e: Endpoint,
  port: PortPlan,
  service: Service,
  slice: SliceEndpoint | undefined,
  context: Context,
): string {
  if (!e.ready) {
    if (!e.terminating) return "not ready";
    return e.serving ? "terminating, and ready endpoints take its place" : "terminating and no longer serving";
  }
  if (!port.usesCluster && !e.local)
    return `on another node${slice?.nodeName ? ` (${slice.nodeName})` : ""}, and ${service.internalLocal ? "internalTrafficPolicy" : "the policy"} is Local`;
  if ((slice?.nodeHints.length ?? 0) > 0 && !slice?.nodeHints.includes(context.nodeName))
    return `topology hints: for node ${slice?.nodeHints.join(", ")}`;
  if ((slice?.zoneHints.length ?? 0) > 0)
    return `topology hints: for zone ${slice?.zoneHints.join(", ")}, this node is in ${context.zone || "none"}`;
  return "topology hints";
}
