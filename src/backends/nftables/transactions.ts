/** A change of our table as transactions: one for almost every change, more where a packet on its way could fall between. */
import type { Context } from "../../model/context.ts";
import type { Step } from "../../model/step.ts";
import {
  type NftChain,
  type NftElement,
  type NftSet,
  type NftTransaction,
  printChainRemoval,
  printTransaction,
} from "../../tools/nft.ts";
import { timeLimit } from "../../tools/time-limit.ts";
import type { Change } from "../backend.ts";
import { indexedMaps } from "./compact-base.ts";
import { type Edit, newEdit, usesAny } from "./edit.ts";
import { isShared, ownerOf } from "./names.ts";
import type { NftState } from "./state.ts";

/** Kernels before 6.2 call a chain busy for a moment after the transaction that unreferenced it. */
const SETTLE_MS = 1_000;
/** Empty chains cost nothing: they go with the next change, or after this long. */
export const IDLE_REMOVAL_MS = 30_000;

/** More new chains than this are loaded in several transactions (4,000: two seconds; the kernel's cost grows with the square). */
const BATCH = 4_000;

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
  const condemned = new Map(recreate ? [] : condemnedBefore);
  for (const name of edit.addChains.keys()) condemned.delete(name);
  for (const name of edit.stale) if (!edit.addChains.has(name)) condemned.set(name, now);
  const counts = { chains: edit.addChains.size, elements: elementCount(edit) };
  const steps = stepsOf(edit, context, recreate);
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

/** Takes the edit apart: what goes ahead, the change itself, what is taken away once nothing leads there any more. */
function stepsOf(edit: Edit, context: Context, recreate: boolean): Step[] {
  const { family } = context;
  const turned = recreate ? [] : turnsOf(edit);
  const steps = recreate
    ? []
    : loadAhead(
        edit,
        context,
        turned.some(({ to }) => edit.addChains.has(to)),
      );
  const late = newEdit();
  if (leavesBehind(edit, turned)) takeLate(edit, late);
  for (const name of edit.stale)
    if (!edit.addChains.has(name)) (late.stale.size > 0 ? late : edit).flushChains.add(name);
  for (const part of [edit, late]) {
    const input = printTransaction(family, transactionOf(part, recreate && part === edit));
    if (input.length > 0) steps.push(transactionStep(input, aboutEdit(part)));
  }
  return steps;
}

/** A frontend whose packets go on to another chain than before. */
interface Turn {
  readonly from: string;
  readonly to: string;
}

/**
 * The kernel reads elements as they are in the moment of the look-up, but rules as they were when the packet came in. So a
 * packet that meets a commit may follow an element of the new state into a chain of the old one: empty, if it is new
 * (measured: lost packets at 20,000 connections a second). Chains that frontends turn to must be there a commit earlier.
 */
function turnsOf(edit: Edit): readonly Turn[] {
  const turns: Turn[] = [];
  for (const [id, gone] of edit.deleteElements) {
    const [from, to] = [chainBehind(gone), chainBehind(edit.addElements.get(id))];
    if (from !== undefined && to !== undefined && from !== to) turns.push({ from, to });
  }
  return turns;
}

function chainBehind(element: NftElement | undefined): string | undefined {
  return element?.value?.startsWith("goto ") === true ? element.value.slice(5) : undefined;
}

/**
 * Whether what turns away leaves something that a packet on its way still needs: a chain with anonymous maps, whose
 * elements end with the commit even for rules that do not, or a whole list of endpoints (the first element stands for it;
 * of a list that only got shorter, the second rule of the chain finds the first element).
 */
function leavesBehind(edit: Edit, turns: readonly Turn[]): boolean {
  if (turns.length === 0 || [...edit.addSets.keys()].some((name) => edit.deleteSets.has(name))) return false;
  if (turns.some(({ from }) => edit.stale.has(from) && !isShared(from))) return true;
  for (const name of edit.deleteSets) if (indexedMaps.has(name)) return true;
  for (const [id, { set, key }] of edit.deleteElements)
    if (indexedMaps.has(set) && key.endsWith(" . 0") && !edit.addElements.has(id)) return true;
  return false;
}

/** Moves all that is only taken away. */
function takeLate(edit: Edit, late: Edit): void {
  for (const [id, element] of edit.deleteElements) {
    if (edit.addElements.has(id)) continue;
    edit.deleteElements.delete(id);
    late.deleteElements.set(id, element);
  }
  for (const name of edit.deleteSets) late.deleteSets.add(name);
  edit.deleteSets.clear();
  for (const name of edit.stale) late.stale.add(name);
}

/**
 * New chains go ahead in transactions of their own when frontends turn to them, or when they are very many: nothing refers
 * to them yet, and no single transaction keeps the kernel's lock for long. Takes what it writes out of the edit.
 */
function loadAhead(edit: Edit, { family }: Context, turned: boolean): Step[] {
  if (!turned && edit.addChains.size <= BATCH) return [];
  const fresh = [...edit.addChains.values()].filter((chain) => isFresh(edit, chain));
  if (fresh.length <= (turned ? 0 : BATCH)) return [];
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
  if ((ownerOf(name) === undefined && !isShared(name)) || edit.flushChains.has(name)) return false;
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
  return { kind: "exec", tool: "nft", args: ["-f", "-"], input, timeoutMs: timeLimit(input), about };
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
    addElements: [...edit.addElements.values(), ...edit.bulk],
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
  return `${edit.addChains.size} chains, ${elementCount(edit)} elements`;
}

function elementCount({ addElements, bulk, deleteElements }: Edit): number {
  return addElements.size + bulk.length + deleteElements.size;
}
