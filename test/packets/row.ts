/** What a row of the packet table is: Services, and for each packet sent to them where it must end. Pure data. */
import type { FamilyName } from "../../src/model/family.ts";
import type { Place, Pod } from "../lab/topology.ts";

/** The four ways to run the proxy; `compact` layouts of nftables share its row values. */
export type Mode = "iptables-nft" | "iptables-legacy" | "nftables" | "ipvs";
export const modes: readonly Mode[] = ["iptables-nft", "iptables-legacy", "nftables", "ipvs"];

export type Transport = "tcp" | "udp" | "sctp";

/** Proxy configurations that rows ask for; settings.ts says what each is. */
export type Setting =
  | "plain"
  | "one-network"
  | "all-addresses"
  | "masquerade-all"
  | "node-cidr"
  | "bridge"
  | "prefix"
  | "no-detection"
  | "no-localhost"
  | "localhost-gate";

export interface EndpointSpec {
  readonly pod: Pod;
  /** Default true. */
  readonly ready?: boolean;
  /** Default: as `ready`. */
  readonly serving?: boolean;
  readonly terminating?: boolean;
  readonly zones?: readonly string[];
  readonly nodes?: readonly string[];
}

export type SourceRange = "outside" | "outside-2" | "pods" | "node" | "nobody";

export interface ServiceSpec {
  /** Unique in its row. */
  readonly name: string;
  /** Default ClusterIP, or NodePort / LoadBalancer where another field needs it. */
  readonly type?: "ClusterIP" | "NodePort" | "LoadBalancer";
  readonly endpoints: readonly (Pod | EndpointSpec)[];
  /** Default tcp. */
  readonly transports?: readonly Transport[];
  /** Has an external IP. */
  readonly external?: boolean;
  readonly ipMode?: "VIP" | "Proxy";
  readonly internalLocal?: boolean;
  readonly externalLocal?: boolean;
  readonly ranges?: readonly SourceRange[];
  readonly affinitySeconds?: number;
  /** Uses the load-balancer and external addresses of another Service of the row. */
  readonly addressesOf?: string;
  /** Service port, default 80. */
  readonly port?: number;
}

/** Which of a Service's doors a packet knocks at. */
export type Door =
  | "cluster IP"
  | "node port"
  | "node port, second address"
  | "node port, bridge address"
  | "node port, loopback"
  | "load balancer"
  | "external IP";

export type Fate =
  | {
      readonly kind: "answered";
      /** Exactly these pods answer over many connections. */
      readonly by: readonly Pod[];
      /** Whose address the pod sees. */
      readonly source: "client" | "node" | "any";
    }
  | { readonly kind: "refused" }
  | { readonly kind: "dropped" };

export interface Packet {
  readonly from: Place;
  /** Name of a Service of the row. */
  readonly to: string;
  readonly door: Door;
  readonly transport?: Transport;
  /** Another port than the Service's. */
  readonly port?: number;
  readonly fate: Fate;
  /** Modes where kube-proxy itself treats it otherwise. */
  readonly instead?: Partial<Readonly<Record<Mode, Fate>>>;
  readonly families?: readonly FamilyName[];
}

export interface Row {
  readonly name: string;
  readonly setting: Setting;
  /** Absent: all. */
  readonly modes?: readonly Mode[];
  readonly services: readonly ServiceSpec[];
  readonly packets: readonly Packet[];
}

export const refused: Fate = { kind: "refused" };
export const dropped: Fate = { kind: "dropped" };

/** Answered by each of the pods, which see the client's own address. */
export const kept = (...by: Pod[]): Fate => ({ kind: "answered", by, source: "client" });
/** Answered by each of the pods, which see an address of node-1. */
export const masqueraded = (...by: Pod[]): Fate => ({ kind: "answered", by, source: "node" });
/** Answered by each of the pods; the source is not looked at. */
export const answered = (...by: Pod[]): Fate => ({ kind: "answered", by, source: "any" });

type Sender = readonly [Place, Fate, Packet["instead"]?];

/** Packets from several places to one door. */
export function to(service: string, door: Door, senders: readonly Sender[], more: Partial<Packet> = {}): Packet[] {
  return senders.map(([from, fate, instead]) => ({
    from,
    to: service,
    door,
    fate,
    ...(instead === undefined ? {} : { instead }),
    ...more,
  }));
}

/** Both iptables variants behave alike. */
export const inIptables = (fate: Fate): Packet["instead"] => ({ "iptables-nft": fate, "iptables-legacy": fate });

export function fateIn(packet: Packet, mode: Mode): Fate {
  return packet.instead?.[mode] ?? packet.fate;
}
