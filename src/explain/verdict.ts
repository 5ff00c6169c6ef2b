/** What is told about one packet: its fate, and the steps that lead there with the kernel objects behind each. */
import type { ProxyMode } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { Protocol } from "../model/service.ts";
import type { Packet } from "./packet.ts";

/** One endpoint that the packet may go to. */
export interface Share {
  readonly ip: string;
  readonly port: number;
  /** On this node. */
  readonly local: boolean;
  /** Of a new client, 0 to 1. */
  readonly probability: number;
  /** The endpoint sees an address of this node. */
  readonly masqueraded: boolean;
  /** Its answers would not come back through this node, so that no connection comes about. */
  readonly repliesLost: boolean;
}

export type Fate =
  | { readonly kind: "dnat"; readonly shares: readonly Share[] }
  /** nftables: this process itself listens on localhost and passes the connection on. */
  | { readonly kind: "proxied"; readonly shares: readonly Share[] }
  | { readonly kind: "drop" }
  | { readonly kind: "reject" }
  /** Not touched: `host` is delivered to the node's own sockets, `route` leaves by the routing table. */
  | { readonly kind: "pass"; readonly to: "host" | "route" };

export type Topic =
  | "source"
  | "match"
  | "source ranges"
  | "policy"
  | "topology"
  | "affinity"
  | "masquerade"
  | "endpoints"
  | "refusal"
  | "other";

/** An object of the kernel that implements a step. `words`: what a rule of the chain must hold, all of it. */
export type KernelObject =
  | {
      readonly tool: "iptables";
      readonly table: "nat" | "filter";
      readonly chain: string;
      readonly words?: readonly string[];
    }
  | { readonly tool: "nft"; readonly kind: "chain"; readonly name: string }
  | { readonly tool: "nft"; readonly kind: "set" | "map"; readonly name: string; readonly key: string }
  | { readonly tool: "ipset"; readonly set: string; readonly entry: string }
  | { readonly tool: "ipvsadm"; readonly protocol: Protocol; readonly at: string; readonly real?: string }
  | { readonly tool: "ip"; readonly address: string };

export interface Step {
  readonly topic: Topic;
  /** One or two sentences. */
  readonly text: string;
  readonly objects: readonly KernelObject[];
}

export interface Verdict {
  readonly mode: ProxyMode;
  readonly family: FamilyName;
  readonly nodeName: string;
  readonly packet: Packet;
  /** `namespace/name` of the Service that the packet is for; undefined: none. */
  readonly service: string | undefined;
  readonly fate: Fate;
  /** In the order in which the kernel takes them. */
  readonly steps: readonly Step[];
}
