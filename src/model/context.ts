/** What a backend must know besides the plan: this host, this family, this configuration. One per IP family; immutable. */
import type { Family } from "./family.ts";

export type ProxyMode = "iptables" | "ipvs" | "nftables";

/** How traffic from pods of this cluster is told from other traffic. */
export type LocalDetector =
  | { readonly kind: "none" }
  | { readonly kind: "cidr"; readonly cidr: string }
  | { readonly kind: "bridge"; readonly name: string }
  | { readonly kind: "prefix"; readonly prefix: string };

/** Where node ports answer, resolved for one family. */
export interface NodePortAddresses {
  /** Any local address (the family's zero CIDR was given, or nothing in iptables and ipvs modes). */
  readonly any: boolean;
  /** Local addresses that node ports answer on, canonical and sorted, loopback excluded; also filled when `any`. */
  readonly addresses: readonly string[];
  /** Loopback addresses are covered. */
  readonly loopback: boolean;
}

/** What was found out about this machine at start (host/facts.ts). */
export interface HostFacts {
  readonly iptables: "nft" | "legacy" | "none";
  /** MASQUERADE --random-fully and nft's fully-random work. */
  readonly randomFully: boolean;
  readonly nfacct: boolean;
  /** net.netfilter.nf_conntrack_tcp_be_liberal is on. */
  readonly tcpBeLiberal: boolean;
  /** Kernel release, e.g. [6, 1]. */
  readonly kernel: readonly [number, number];
}

export interface IpvsOptions {
  readonly scheduler: string;
  readonly strictARP: boolean;
  /** Canonical CIDRs of either family. */
  readonly excludeCIDRs: readonly string[];
  /** Seconds; 0: leave. */
  readonly tcpTimeout: number;
  readonly tcpFinTimeout: number;
  readonly udpTimeout: number;
}

export interface Context {
  readonly mode: ProxyMode;
  readonly family: Family;
  readonly nodeName: string;
  readonly nodeIP: string;
  readonly zone: string;
  readonly detectLocal: LocalDetector;
  readonly nodePorts: NodePortAddresses;
  readonly masqueradeAll: boolean;
  /** e.g. 0x4000. */
  readonly masqueradeMark: number;
  /** iptables: node ports on 127.0.0.1 are wanted (route_localnet). nftables: the KubeProxyNFTablesLocalhostNodePorts listener. */
  readonly localhostNodePorts: boolean;
  readonly ipvs: IpvsOptions;
  readonly facts: HostFacts;
  /** Feature gates that change rules. */
  readonly gates: { readonly nftablesCompact: boolean };
}
