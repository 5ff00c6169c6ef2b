/** A change of our table as data: what to add and remove, keyed, before it becomes transactions. */
import type { NftChain, NftElement, NftSet } from "../../tools/nft.ts";

/** What a change must do; keyed, so that nothing is done twice. */
export interface Edit {
  readonly deleteElements: Map<string, NftElement>;
  readonly addElements: Map<string, NftElement>;
  /** Further new elements, of sets that hold none: free of duplicates, and too many to key. */
  readonly bulk: NftElement[];
  readonly flushChains: Set<string>;
  readonly deleteChains: Set<string>;
  readonly addChains: Map<string, NftChain>;
  readonly deleteSets: Set<string>;
  readonly addSets: Map<string, NftSet>;
  /** Chains that nothing will refer to. */
  readonly stale: Set<string>;
}

export function newEdit(): Edit {
  return {
    deleteElements: new Map(),
    addElements: new Map(),
    bulk: [],
    flushChains: new Set(),
    deleteChains: new Set(),
    addChains: new Map(),
    deleteSets: new Set(),
    addSets: new Map(),
    stale: new Set(),
  };
}

export function elementId(element: NftElement): string {
  return `${element.set} ${element.key}`;
}

export function sameElement(a: NftElement, b: NftElement): boolean {
  return a === b || (a.value === b.value && a.comment === b.comment);
}

/** Whether a rule names one of the sets. */
export function usesAny(expression: string, sets: ReadonlySet<string>): boolean {
  for (const match of expression.matchAll(/@(\S+)/g)) if (sets.has(match[1] ?? "")) return true;
  return false;
}
