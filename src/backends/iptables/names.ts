/** Names of our chains, which of them other people may have put rules into, and the order in which they can be deleted. */
import { digest } from "../../model/digest.ts";
import { joinHostPort } from "../../model/ip.ts";
import type { Endpoint, PortPlan } from "../../model/plan.ts";

export type Table = "mangle" | "filter" | "nat";
export const tables: readonly Table[] = ["mangle", "filter", "nat"];

/** The chains of one Service port; the digest is the same in all of them. */
export interface PortChains {
  readonly cluster: string;
  readonly local: string;
  readonly external: string;
  readonly firewall: string;
}

/** kube-proxy's names, so that either takes over the other's chains: base32 of sha256 of name and protocol, 16 characters. */
export function portChains(port: PortPlan): PortChains {
  const id = digest(port.name + port.protocol, 16);
  return { cluster: `KUBE-SVC-${id}`, local: `KUBE-SVL-${id}`, external: `KUBE-EXT-${id}`, firewall: `KUBE-FW-${id}` };
}

/** One chain for each endpoint of a port; the protocol is part of it, since one name may serve two. */
export function endpointChain(port: PortPlan, endpoint: Endpoint): string {
  return `KUBE-SEP-${digest(port.name + port.protocol + joinHostPort(endpoint.ip, endpoint.port), 16)}`;
}

/** Chains that every Service adds rules to, in the order of a rendered Service's `dispatch`. */
export const dispatchChains: readonly { readonly table: Table; readonly chain: string }[] = [
  { table: "nat", chain: "KUBE-SERVICES" },
  { table: "nat", chain: "KUBE-NODEPORTS" },
  { table: "filter", chain: "KUBE-SERVICES" },
  { table: "filter", chain: "KUBE-EXTERNAL-SERVICES" },
  { table: "filter", chain: "KUBE-NODEPORTS" },
  { table: "filter", chain: "KUBE-PROXY-FIREWALL" },
];

/** Positions in `dispatchChains`. */
export const dispatch = {
  services: 0,
  nodePorts: 1,
  noEndpoints: 2,
  externalNoEndpoints: 3,
  healthChecks: 4,
  firewall: 5,
} as const;

/** kubelet and others use this chain too: our rule is kept in it, theirs are left alone. */
export const sharedChain = "KUBE-FIREWALL";

export const canary = "KUBE-PROXY-CANARY";

/** XLB: what KUBE-EXT was called before 1.24. */
const serviceChain = /^KUBE-(FW|EXT|XLB|SVC|SVL|SEP)-[A-Z2-7]{16}$/;
const ranks = ["FW", "EXT", "XLB", "SVC", "SVL", "SEP"];

/** Belongs to a single Service, of this or an earlier kube-proxy: safe to delete when no Service of ours has it. */
export function isServiceChain(name: string): boolean {
  return serviceChain.test(name);
}

/** Chains come before those they jump to: deleted in this order none is in use. */
export function deletionRank(name: string): number {
  const kind = serviceChain.exec(name)?.[1];
  return kind === undefined ? -1 : ranks.indexOf(kind);
}
