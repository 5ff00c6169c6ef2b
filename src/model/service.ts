/** A Service as the rules need it: canonical, trimmed, immutable. `parseService` (service-parse.ts) makes it from API JSON. */

export type Protocol = "tcp" | "udp" | "sctp";

export interface ServicePort {
  /** Empty for the only port of a Service. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0: none. */
  readonly nodePort: number;
}

export interface Service {
  readonly namespace: string;
  readonly name: string;
  /** `namespace/name`. */
  readonly key: string;
  readonly uid: string;
  /** Milliseconds since the epoch; 0 when unknown. Decides between two claimants of one address. */
  readonly createdAt: number;
  /** Canonical addresses of either family; at most one a family. */
  readonly clusterIPs: readonly string[];
  readonly externalIPs: readonly string[];
  /** Load-balancer addresses that this node serves itself (ipMode absent or VIP). */
  readonly loadBalancerIPs: readonly string[];
  /** Canonical CIDRs of either family; empty: everyone. */
  readonly sourceRanges: readonly string[];
  readonly ports: readonly ServicePort[];
  /** ClientIP session affinity in seconds; 0: none. */
  readonly affinitySeconds: number;
  readonly internalLocal: boolean;
  /** True only for NodePort and LoadBalancer Services with externalTrafficPolicy Local (external IPs follow it too). */
  readonly externalLocal: boolean;
  /** 0: none. */
  readonly healthCheckNodePort: number;
}
