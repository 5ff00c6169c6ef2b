/** From the state last applied to the desired one: only the chains, sets and elements that differ, in one transaction. */
import type { Context } from "../../model/context.ts";
import type { Step } from "../../model/step.ts";
import {
  type NftChain,
  type NftElement,
  type NftSet,
  type NftTransaction,
  printChainRemoval,
  printRule,
  printSetSpec,
  printTransaction,
} from "../../tools/nft.ts";
import type { Change } from "../backend.ts";
import { ownerOf } from "./names.ts";
import { type NftState, type Objects, sharedSets } from "./state.ts";

/** Kernels before 6.2 call a chain busy for a moment after the transaction that unreferenced it. */
const SETTLE_MS = 1_000;
/** Empty chains cost nothing: they go with the next change, or after this long. */
const IDLE_REMOVAL_MS = 30_000;

/** More new chains than this are loaded in several transactions (4,000: two seconds; the kernel's cost grows with the square). */
const BATCH = 4_000;

/** What one transaction must do; keyed, so that nothing is done twice. */
export interface Edit {
  readonly deleteElements: Map<string, NftElement>;
  readonly addElements: Map<string, NftElement>;
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

/** The change between two known states. Nothing of the kernel is read for it. */
export function diffStates(from: NftState, to: NftState, context: Context, now: number): Change<NftState> {
  const edit = newEdit();
  if (from.base !== to.base) editObjects(edit, from.base, to.base);
  for (const [key, objects] of to.services) {
    const before = from.services.get(key);
    if (before !== objects) editObjects(edit, before, objects);
  }
  for (const [key, objects] of from.services) if (!to.services.has(key)) editObjects(edit, objects, undefined);
  keepShared(edit, to);
  return changeOf(edit, to, from.condemned, context, now, IDLE_REMOVAL_MS);
}

/** Adds what leads from one group of objects to its successor. */
function editObjects(edit: Edit, before: Objects | undefined, after: Objects | undefined): void {
  const oldChains = new Map(before?.chains.map((chain) => [chain.name, chain]));
  for (const chain of after?.chains ?? []) {
    const old = oldChains.get(chain.name);
    oldChains.delete(chain.name);
    if (old !== undefined && sameRules(old, chain)) continue;
    edit.addChains.set(chain.name, chain);
    if (old !== undefined) edit.flushChains.add(chain.name);
  }
  for (const name of oldChains.keys()) edit.stale.add(name);

  const oldSets = new Map(before?.sets.map((set) => [set.name, set]));
  const replaced = new Set<string>();
  for (const set of after?.sets ?? []) {
    const old = oldSets.get(set.name);
    oldSets.delete(set.name);
    if (old !== undefined && sameSpec(old, set)) continue;
    edit.addSets.set(set.name, set);
    if (old === undefined) continue;
    edit.deleteSets.add(set.name);
    replaced.add(set.name);
  }
  for (const name of oldSets.keys()) edit.deleteSets.add(name);
  // A set can only be replaced while no rule uses it.
  if (replaced.size > 0) rewriteUsers(edit, before, after, replaced);
  editElements(edit, before, after);
}

function editElements(edit: Edit, before: Objects | undefined, after: Objects | undefined): void {
  const old = new Map(before?.elements.map((element) => [elementId(element), element]));
  for (const element of after?.elements ?? []) {
    const id = elementId(element);
    const was = old.get(id);
    old.delete(id);
    if (was !== undefined && sameElement(was, element)) continue;
    // A map's element cannot be changed, only removed and added again, which in one transaction is one moment.
    if (was !== undefined) edit.deleteElements.set(id, was);
    edit.addElements.set(id, element);
  }
  for (const [id, element] of old) if (!edit.deleteSets.has(element.set)) edit.deleteElements.set(id, element);
}

function rewriteUsers(
  edit: Edit,
  before: Objects | undefined,
  after: Objects | undefined,
  sets: ReadonlySet<string>,
): void {
  const old = new Set(before?.chains.map((chain) => chain.name));
  for (const chain of after?.chains ?? []) {
    if (!old.has(chain.name) || !chain.rules.some((rule) => usesAny(rule.expression, sets))) continue;
    edit.flushChains.add(chain.name);
    edit.addChains.set(chain.name, chain);
  }
}

export function usesAny(expression: string, sets: ReadonlySet<string>): boolean {
  for (const match of expression.matchAll(/@(\S+)/g)) if (sets.has(match[1] ?? "")) return true;
  return false;
}

/** An element of a shared set stays while any other Service wants it. One pass over the Services, only when one is to go. */
function keepShared(edit: Edit, to: NftState): void {
  const leaving = [...edit.deleteElements].filter(([, element]) => sharedSets.has(element.set)).map(([id]) => id);
  if (leaving.length === 0) return;
  const candidates = new Set(leaving);
  for (const objects of to.services.values()) {
    for (const element of objects.elements) {
      if (!sharedSets.has(element.set)) continue;
      const id = elementId(element);
      if (candidates.delete(id)) edit.deleteElements.delete(id);
    }
    if (candidates.size === 0) return;
  }
}

/** The steps of an edit, and the state after them. */
export function changeOf(
  edit: Edit,
  to: NftState,
  condemnedBefore: ReadonlyMap<string, number>,
  context: Context,
  now: number,
  idleMs: number,
  recreate = false,
): Change<NftState> {
  const { family } = context;
  const condemned = new Map(recreate ? [] : condemnedBefore);
  for (const name of edit.addChains.keys()) condemned.delete(name);
  for (const name of edit.stale) {
    if (edit.addChains.has(name)) continue;
    edit.flushChains.add(name);
    condemned.set(name, now);
  }
  const counts = { chains: edit.addChains.size, elements: edit.addElements.size + edit.deleteElements.size };
  const steps: Step[] = recreate ? [] : loadAhead(edit, context);
  const input = printTransaction(family, transactionOf(edit, recreate));
  if (input.length > 0) steps.push(transactionStep(input, aboutEdit(edit)));
  const ripe = [...condemned].filter(([, since]) => now - since >= SETTLE_MS).map(([name]) => name);
  // Together with a change, or once it is due by itself; never in the change's own transaction, which must not fail.
  if (ripe.length > 0 && (steps.length > 0 || ripe.some((name) => now - (condemned.get(name) ?? now) >= idleMs))) {
    steps.push(removalStep(ripe, context));
    for (const name of ripe) condemned.delete(name);
  }
  const oldest = Math.min(...condemned.values());
  return {
    steps,
    state: { ...to, condemned },
    ...(condemned.size > 0 ? { againMs: Math.max(1, oldest + idleMs - now) } : {}),
    counts: { ...counts, condemned: condemned.size },
  };
}

/**
 * New chains of Services, when they are very many, go ahead in transactions of their own: nothing refers to them yet, and
 * no single transaction keeps the kernel's lock for long. Takes what it writes out of the edit.
 */
function loadAhead(edit: Edit, { family }: Context): Step[] {
  const fresh = [...edit.addChains.values()].filter((chain) => isFresh(edit, chain));
  if (fresh.length <= BATCH) return [];
  const steps: Step[] = [];
  let chains: NftChain[] = [];
  const flush = (): void => {
    const sets = new Map(chains.flatMap(({ rules }) => ownSets(edit, rules)).map((set) => [set.name, set]));
    const input = printTransaction(family, { addSets: [...sets.values()], addChains: chains });
    steps.push(transactionStep(input, `${chains.length} new chains, before they are used`));
    for (const { name } of chains) edit.addChains.delete(name);
    for (const name of sets.keys()) edit.addSets.delete(name);
    chains = [];
  };
  for (const [i, chain] of fresh.entries()) {
    // Chains of one Service refer to each other.
    if (chains.length >= BATCH && ownerOf(chain.name) !== ownerOf(fresh[i - 1]?.name ?? "")) flush();
    chains.push(chain);
  }
  if (chains.length > 0) flush();
  return steps;
}

function isFresh(edit: Edit, { name, rules }: NftChain): boolean {
  if (ownerOf(name) === undefined || edit.flushChains.has(name)) return false;
  // A set that is made anew still has its old form.
  return edit.deleteSets.size === 0 || !rules.some(({ expression }) => usesAny(expression, edit.deleteSets));
}

/** The sets among the new ones that rules use. */
function ownSets(edit: Edit, rules: NftChain["rules"]): readonly NftSet[] {
  return rules.flatMap(({ expression }) =>
    [...expression.matchAll(/@(\S+)/g)].flatMap((match) => edit.addSets.get(match[1] ?? "") ?? []),
  );
}

function transactionStep(input: readonly string[], about: string): Step {
  return { kind: "exec", tool: "nft", args: ["-f", "-"], input, timeoutMs: 120_000, about };
}

function transactionOf(edit: Edit, recreate: boolean): NftTransaction {
  return {
    recreate,
    deleteElements: [...edit.deleteElements.values()],
    flushChains: [...edit.flushChains],
    deleteChains: [...edit.deleteChains],
    deleteSets: [...edit.deleteSets],
    addSets: [...edit.addSets.values()],
    addChains: [...edit.addChains.values()],
    addElements: [...edit.addElements.values()],
  };
}

function removalStep(names: readonly string[], { family }: Context): Step {
  return {
    kind: "exec",
    tool: "nft",
    args: ["-f", "-"],
    input: printChainRemoval(family, names),
    // An unused chain that stays (busy, or used by a rule that somebody added) harms nobody; the next full sync finds it.
    mayFail: true,
    about: `${names.length} unused chains of table ${family.nft} kube-proxy`,
  };
}

function aboutEdit(edit: Edit): string {
  const elements = edit.addElements.size + edit.deleteElements.size;
  return `${edit.addChains.size} chains, ${elements} elements`;
}

export function sameRules(a: NftChain, b: NftChain): boolean {
  if (a === b || a.rules === b.rules) return true;
  return a.rules.length === b.rules.length && a.rules.every((rule, i) => sameText(rule, b.rules[i]));
}

function sameText(a: NftChain["rules"][number], b: NftChain["rules"][number] | undefined): boolean {
  return b !== undefined && printRule(a) === printRule(b);
}

function sameSpec(a: NftSet, b: NftSet): boolean {
  return a === b || printSetSpec(a).join() === printSetSpec(b).join();
}
