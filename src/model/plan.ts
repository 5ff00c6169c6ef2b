/** The plan: every decision about one family's traffic, free of tool syntax. `makePlan` (planner.ts) computes it. */
import type { Context } from "./context.ts";
import type { Protocol } from "./service.ts";
import type { ServiceInput } from "./snapshot.ts";

export interface Endpoint {
  readonly ip: string;
  readonly port: number;
  /** On this node. */
  readonly local: boolean;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
}

/**
 * Where traffic of one kind ends: `cluster` and `local` name the endpoint list used, `drop` means that only the other
 * nodes have endpoints for a Local policy, `reject` that there is no usable endpoint anywhere.
 */
export type Fate = "cluster" | "local" | "drop" | "reject";

/** One port of one Service. All lists are sorted by address, then port, and free of duplicates. */
export interface PortPlan {
  /** `namespace/name` or `namespace/name:port`. */
  readonly name: string;
  readonly portName: string;
  readonly protocol: Protocol;
  readonly clusterIP: string;
  readonly port: number;
  /** 0: none, or taken by an older Service. */
  readonly nodePort: number;
  readonly externalIPs: readonly string[];
  readonly loadBalancerIPs: readonly string[];
  /** This family's CIDRs in the Service's order; empty: everyone may come. Applies to load-balancer addresses only. */
  readonly sourceRanges: readonly string[];
  readonly affinitySeconds: number;
  /** Traffic to the cluster IP. */
  readonly internal: Fate;
  /** Traffic from outside to node ports, external and load-balancer addresses. */
  readonly external: Fate;
  readonly internalLocal: boolean;
  readonly externalLocal: boolean;
  /** Has a node port, an external or a load-balancer address. */
  readonly exposed: boolean;
  /** A list for cluster-wide traffic is needed (internal Cluster policy, or exposed: pods and the node itself short-circuit to it). */
  readonly usesCluster: boolean;
  readonly usesLocal: boolean;
  readonly clusterEndpoints: readonly Endpoint[];
  readonly localEndpoints: readonly Endpoint[];
  /** Union of the lists in use. */
  readonly endpoints: readonly Endpoint[];
  /** Endpoints that exist but are in no list, for `explain`. */
  readonly unused: readonly Endpoint[];
}

/** One Service in one family. The same object as before when nothing that it depends on changed. */
export interface ServicePlan {
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly input: ServiceInput;
  /** In the Service's order. */
  readonly ports: readonly PortPlan[];
  /** Health check node port and the number of ready local endpoints; undefined: none wanted. */
  readonly healthCheck: { readonly port: number; readonly localEndpoints: number } | undefined;
  readonly endpointCount: number;
}

export interface PlanMemory {
  readonly context: Context;
  /** The snapshot's Services, to find the changed ones of the next by walking both side by side. */
  readonly inputs: ReadonlyMap<string, ServiceInput>;
  /** By key, sorted; before conflicts are resolved. Services of the other family have no plan. */
  readonly base: ReadonlyMap<string, { readonly input: ServiceInput; readonly plan: ServicePlan | undefined }>;
  /** Frontends (`ip/proto/port`, `/proto/nodePort`) that a Service claims but an older one owns, by Service key. */
  readonly lost: ReadonlyMap<string, ReadonlySet<string>>;
  /** `serviceCIDRs` of the snapshot, for identity. */
  readonly cidrs: readonly string[];
}

export interface Plan {
  /** Sorted by Service key. Services without an address in this family are absent. */
  readonly services: ReadonlyMap<string, ServicePlan>;
  /** Endpoints over all ports: comments are dropped from iptables rules above 1,000. */
  readonly endpointCount: number;
  /** Ports whose Local policy finds no local endpoint although others exist, for metrics. */
  readonly noLocalEndpoints: { readonly internal: number; readonly external: number };
  /** Canonical ServiceCIDRs of this family, sorted (nftables). */
  readonly serviceCIDRs: readonly string[];
  /** What the planner needs to plan the next snapshot with little work; nobody else reads it. */
  readonly memory: PlanMemory;
  /** Addresses or node ports claimed by two Services, and who lost: one line each, already printable. */
  readonly conflicts: readonly string[];
}
