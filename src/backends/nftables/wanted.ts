/** A state by the names of its objects, for comparing with what the kernel holds. */
import type { NftChain, NftElement, NftHook, NftSet } from "../../tools/nft.ts";
import type { ListedChain } from "../../tools/nft-list.ts";
import type { NftState } from "./state.ts";

export interface Wanted {
  readonly chains: ReadonlyMap<string, NftChain>;
  readonly sets: ReadonlyMap<string, NftSet>;
  /** By set. Dynamic sets have no entry. */
  readonly elements: ReadonlyMap<string, ReadonlyMap<string, NftElement>>;
}

/** `elementsOf`: which sets' elements are wanted; absent: all. */
export function flatten(state: NftState, elementsOf: (set: string) => boolean = () => true): Wanted {
  const chains = new Map<string, NftChain>();
  const sets = new Map<string, NftSet>();
  const elements = new Map<string, Map<string, NftElement>>();
  for (const group of [state.base, ...state.services.values()]) {
    for (const chain of group.chains) chains.set(chain.name, chain);
    for (const set of group.sets) {
      sets.set(set.name, set);
      if (set.dynamicTimeout === undefined && elementsOf(set.name)) elements.set(set.name, new Map());
    }
  }
  for (const group of [state.base, ...state.services.values()]) addElements(elements, group.elements);
  return { chains, sets, elements };
}

function addElements(bySet: ReadonlyMap<string, Map<string, NftElement>>, elements: readonly NftElement[]): void {
  let last = "";
  let into: Map<string, NftElement> | undefined;
  for (const element of elements) {
    // Neighbours are mostly of one set.
    if (element.set !== last) into = bySet.get(element.set);
    last = element.set;
    into?.set(element.key, element);
  }
}

/** Whether a listed chain is the base chain, or the plain chain, that it should be. */
export function sameHook({ hook: listed }: ListedChain, hook: NftHook | undefined): boolean {
  if (listed === undefined || hook === undefined) return listed === undefined && hook === undefined;
  return listed.accept && listed.type === hook.type && listed.hook === hook.hook && listed.priority === hook.priority;
}
