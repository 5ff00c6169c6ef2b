/** What ipvs mode wants the kernel to hold, and what it read there, as plain data. */
import type { Context } from "../../model/context.ts";
import type { ServicePlan } from "../../model/plan.ts";
import type { IpSet } from "../../tools/ipset.ts";
import type { Forward, ServerId, ServerOptions } from "../../tools/ipvsadm.ts";
import type { SetKey, Table } from "./names.ts";

/** A virtual server and its real servers: weight by `ip:port`. */
export interface VirtualServer {
  readonly id: ServerId;
  readonly options: ServerOptions;
  readonly reals: ReadonlyMap<string, number>;
}

/** One element of one set. */
export interface Element {
  readonly set: SetKey;
  readonly entry: string;
}

/** An address and port that the node itself may not use with that address as its source. */
export interface OutFilter {
  readonly id: ServerId;
}

/** One Service as the kernel sees it. Kept as long as its ServicePlan object lives. */
export interface Rendered {
  readonly plan: ServicePlan;
  /** By `serverKey`. */
  readonly servers: ReadonlyMap<string, VirtualServer>;
  readonly addresses: readonly string[];
  /** By `SET ENTRY`. */
  readonly elements: ReadonlyMap<string, Element>;
  /** Sets that it has elements in. */
  readonly sets: ReadonlySet<SetKey>;
  readonly outFilters: readonly OutFilter[];
}

/** A real server that gets no new connections and goes when its last one has gone. */
export interface Draining {
  readonly id: ServerId;
  readonly real: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
  /** Undefined: not read yet. */
  readonly connections: number | undefined;
  /** Looks in a row that did not find it. */
  readonly missed: number;
}

export interface IpvsState {
  readonly context: Context;
  /** By Service key. */
  readonly services: ReadonlyMap<string, Rendered>;
  /** Rule lines of every chain of ours, by table and name. */
  readonly chains: Readonly<Record<Table, ReadonlyMap<string, string>>>;
  /** By `serverKey real`; empty in what `desired` returns. */
  readonly draining: ReadonlyMap<string, Draining>;
}

/** A real server as read; anything but masquerading is somebody else's work on our server. */
export interface ObservedReal {
  readonly weight: number;
  readonly forward: Forward;
}

export interface ObservedServer {
  readonly id: ServerId;
  readonly options: ServerOptions;
  readonly reals: ReadonlyMap<string, ObservedReal>;
}

export interface ObservedSet {
  readonly set: IpSet;
  readonly entries: ReadonlySet<string>;
}

export interface IpvsObserved {
  /** kube-ipvs0 exists. */
  readonly device: boolean;
  readonly addresses: readonly string[];
  /** This family's, by `serverKey`. */
  readonly servers: ReadonlyMap<string, ObservedServer>;
  /** Sets of ours that exist, by name. */
  readonly sets: ReadonlyMap<string, ObservedSet>;
  /** By table: chains of ours that exist and how many rules each has. */
  readonly chains: Readonly<Record<Table, ReadonlyMap<string, number>>>;
  /** By table: all rules of built-in chains that jump to a chain of ours, as printed. */
  readonly jumps: Readonly<Record<Table, readonly string[]>>;
}
