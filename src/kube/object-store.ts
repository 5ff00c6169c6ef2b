/** What we know of the cluster, as Snapshots: unchanged entries keep their identity, so that the planner can skip them. */
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { FamilyName } from "../model/family.ts";
import type { NodeInfo } from "../model/node.ts";
import type { Service } from "../model/service.ts";
import type { ServiceInput, Snapshot } from "../model/snapshot.ts";
import { Table } from "./table.ts";
import { Tally } from "./tally.ts";

/** What a burst of changes was about. */
export interface StoreChange {
  /** Services, EndpointSlices or ServiceCIDRs: a sync is due. */
  readonly objects: boolean;
  readonly node: boolean;
}

export class ObjectStore {
  readonly services = new Table<Service>((key, before, after) => this.#serviceChanged(key, before, after));
  readonly endpointSlices = new Table<EndpointSlice>(
    (key, before, after) => this.#sliceChanged(key, before, after),
    sameSlice,
  );
  readonly serviceCIDRs = new Table<readonly string[]>(() => this.#cidrsChanged());
  readonly nodes: Table<NodeInfo>;
  readonly #nodeName: string;
  /** By Service key, then slice name. */
  readonly #slices = new Map<string, Map<string, EndpointSlice>>();
  readonly #dirty = new Set<string>();
  readonly #inputs = new Map<string, ServiceInput>();
  readonly #listeners = new Set<(change: StoreChange) => void>();
  readonly #tallies = new Set<Tally>();
  #snapshot: Snapshot = { services: new Map(), node: undefined, serviceCIDRs: [] };
  #change: { objects: boolean; node: boolean } | undefined;
  #otherDirty = false;

  /** `nodeName`: the one Node that counts. */
  constructor(nodeName: string) {
    this.#nodeName = nodeName;
    this.nodes = new Table<NodeInfo>((key) => {
      if (key !== this.#nodeName) return;
      this.#otherDirty = true;
      this.#notify({ objects: false, node: true });
    });
  }

  get node(): NodeInfo | undefined {
    return this.nodes.rows.get(this.#nodeName);
  }

  /** The state now. The same object as long as nothing changed. */
  snapshot(): Snapshot {
    if (this.#dirty.size === 0 && !this.#otherDirty) return this.#snapshot;
    const changed = this.#dirty.size > 0;
    for (const key of this.#dirty) this.#refresh(key);
    this.#dirty.clear();
    this.#snapshot = {
      services: changed ? new Map(this.#inputs) : this.#snapshot.services,
      node: this.node,
      serviceCIDRs: this.#otherDirty ? this.#cidrs() : this.#snapshot.serviceCIDRs,
    };
    this.#otherDirty = false;
    return this.#snapshot;
  }

  /** Called once for each burst of changes, in a microtask. Gives the function that ends it. */
  onChange(listener: (change: StoreChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A counter of changes from now on, of one family's endpoints or of all. */
  tally(family?: FamilyName): Tally {
    const tally = new Tally(family);
    this.#tallies.add(tally);
    return tally;
  }

  // --- internal ---

  #serviceChanged(key: string, before: Service | undefined, after: Service | undefined): void {
    if (before !== undefined || after !== undefined) for (const tally of this.#tallies) tally.service();
    this.#touch(key);
  }

  #sliceChanged(key: string, before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    if (before !== undefined) {
      const slices = this.#slices.get(before.serviceKey);
      slices?.delete(key);
      if (slices?.size === 0) this.#slices.delete(before.serviceKey);
      this.#touch(before.serviceKey);
    }
    if (after !== undefined) {
      const slices = this.#slices.get(after.serviceKey) ?? new Map<string, EndpointSlice>();
      slices.set(key, after);
      this.#slices.set(after.serviceKey, slices);
      this.#touch(after.serviceKey);
    }
    const trigger = after !== undefined && after.lastChange !== before?.lastChange ? after.lastChange : 0;
    const family = (after ?? before)?.family;
    if (family !== undefined) for (const tally of this.#tallies) tally.endpoint(family, trigger);
  }

  #cidrsChanged(): void {
    this.#otherDirty = true;
    this.#notify({ objects: true, node: false });
  }

  #touch(serviceKey: string): void {
    this.#dirty.add(serviceKey);
    this.#notify({ objects: true, node: false });
  }

  #notify(change: StoreChange): void {
    if (this.#change !== undefined) {
      this.#change.objects ||= change.objects;
      this.#change.node ||= change.node;
      return;
    }
    this.#change = { ...change };
    queueMicrotask(() => {
      const told = this.#change ?? change;
      this.#change = undefined;
      for (const listener of this.#listeners) listener(told);
    });
  }

  #refresh(key: string): void {
    const service = this.services.rows.get(key);
    if (service === undefined) this.#inputs.delete(key);
    else {
      const slices = [...(this.#slices.get(key)?.values() ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1));
      this.#inputs.set(key, { service, slices });
    }
  }

  #cidrs(): readonly string[] {
    return [...new Set([...this.serviceCIDRs.rows.values()].flat())].sort();
  }
}

/** A new trigger time alone is no change: there is nothing to program for it. */
function sameSlice(a: EndpointSlice, b: EndpointSlice): boolean {
  return Bun.deepEquals(a.lastChange === b.lastChange ? a : { ...a, lastChange: b.lastChange }, b);
}
