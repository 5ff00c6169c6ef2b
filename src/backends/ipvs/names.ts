/** Names that ipvs mode uses in the kernel: the device, the sets and the chains; facts shared with every other kube-proxy. */
import type { Family } from "../../model/family.ts";
import type { IpSet, SetType } from "../../tools/ipset.ts";

/** The dummy device that holds every service address, so that packets to them are delivered locally. */
export const device = "kube-ipvs0";

const setTypes = {
  "LOOP-BACK": "hash:ip,port,ip",
  "CLUSTER-IP": "hash:ip,port",
  "EXTERNAL-IP": "hash:ip,port",
  "EXTERNAL-IP-LOCAL": "hash:ip,port",
  "LOAD-BALANCER": "hash:ip,port",
  "LOAD-BALANCER-FW": "hash:ip,port",
  "LOAD-BALANCER-LOCAL": "hash:ip,port",
  "LOAD-BALANCER-SOURCE-IP": "hash:ip,port,ip",
  "LOAD-BALANCER-SOURCE-CIDR": "hash:ip,port,net",
  "NODE-PORT-TCP": "bitmap:port",
  "NODE-PORT-LOCAL-TCP": "bitmap:port",
  "NODE-PORT-UDP": "bitmap:port",
  "NODE-PORT-LOCAL-UDP": "bitmap:port",
  "NODE-PORT-SCTP-HASH": "hash:ip,port",
  "NODE-PORT-LOCAL-SCTP-HASH": "hash:ip,port",
  "HEALTH-CHECK-NODE-PORT": "bitmap:port",
  "IPVS-IPS": "hash:ip",
} as const satisfies Record<string, SetType>;

export type SetKey = keyof typeof setTypes;

/** In the order of creation and filling: the set that rejects what the others do not allow comes last. */
export const setKeys = Object.keys(setTypes) as readonly SetKey[];

/** The kernel's names have 31 characters at most: the longest IPv6 names are cut. */
export function setName(key: SetKey, family: Family): string {
  return family.name === "IPv4" ? `KUBE-${key}` : `KUBE-6-${key}`.slice(0, 31);
}

/** All sets of a family. */
export function setsOf(family: Family): readonly IpSet[] {
  return setKeys.map((key) => {
    const type = setTypes[key];
    return { name: setName(key, family), type, family: type === "bitmap:port" ? undefined : family.ipset };
  });
}

export type Table = "filter" | "nat";

/** Our chains by table. */
export const chains: Readonly<Record<Table, readonly string[]>> = {
  filter: [
    "KUBE-FORWARD",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
    "KUBE-NODE-PORT",
    "KUBE-PROXY-FIREWALL",
    "KUBE-SOURCE-RANGES-FIREWALL",
  ],
  nat: ["KUBE-LOAD-BALANCER", "KUBE-MARK-MASQ", "KUBE-NODE-PORT", "KUBE-POSTROUTING", "KUBE-SERVICES"],
};

export interface Jump {
  readonly chain: string;
  readonly target: string;
  readonly comment: string;
}

/** Jumps out of the built-in chains, in order. */
export const jumps: Readonly<Record<Table, readonly Jump[]>> = {
  filter: [
    { chain: "INPUT", target: "KUBE-IPVS-FILTER", comment: "kubernetes ipvs access filter" },
    { chain: "INPUT", target: "KUBE-PROXY-FIREWALL", comment: "kube-proxy firewall rules" },
    { chain: "INPUT", target: "KUBE-NODE-PORT", comment: "kubernetes health check rules" },
    { chain: "FORWARD", target: "KUBE-PROXY-FIREWALL", comment: "kube-proxy firewall rules" },
    { chain: "FORWARD", target: "KUBE-FORWARD", comment: "kubernetes forwarding rules" },
    { chain: "OUTPUT", target: "KUBE-IPVS-OUT-FILTER", comment: "kubernetes ipvs access filter" },
  ],
  nat: [
    { chain: "PREROUTING", target: "KUBE-SERVICES", comment: "kubernetes service portals" },
    { chain: "OUTPUT", target: "KUBE-SERVICES", comment: "kubernetes service portals" },
    { chain: "POSTROUTING", target: "KUBE-POSTROUTING", comment: "kubernetes postrouting rules" },
  ],
};

/** In the order of writing: iptables-legacy lists the table that was used last first. */
export const tables: readonly Table[] = ["nat", "filter"];
