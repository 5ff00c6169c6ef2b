/** What our table of one family holds, as data: fixed objects, and the objects of each Service, shared by identity. */
import type { ServicePlan } from "../../model/plan.ts";
import type { NftChain, NftElement, NftSet } from "../../tools/nft.ts";

/** Objects that belong together; a layout (service.ts, compact.ts) makes them from a plan, diff.ts knows nothing of layouts. */
export interface Objects {
  readonly chains: readonly NftChain[];
  readonly sets: readonly NftSet[];
  readonly elements: readonly NftElement[];
}

/** One Service's objects. Names are unique to the Service; elements of `sharedSets`, which stand first, may belong to several. */
export interface ServiceObjects extends Objects {
  readonly plan: ServicePlan;
  /** Names of the chains that it shares with others (compact layout). */
  readonly shared: readonly string[];
}

export interface NftState {
  readonly base: Objects;
  /** By Service key, in the plan's order. */
  readonly services: ReadonlyMap<string, ServiceObjects>;
  /** How many Services lead to each shared chain (compact layout). */
  readonly users: ReadonlyMap<string, number>;
  /** Everything of the Context that a Service's objects depend on; other states' objects are not reused. */
  readonly settings: string;
  /** Empty chains that nothing refers to, kept until they can be deleted: name → since when (milliseconds). */
  readonly condemned: ReadonlyMap<string, number>;
}

/** Sets whose elements two Services may both want: one endpoint or cluster IP behind two of them. */
export const sharedSets: ReadonlySet<string> = new Set(["hairpin-connections", "cluster-ips"]);
