/** Changes of the dispatch chains: single insertions and deletions while they are few, the whole chain when they are many. */

import { asVerb, declare, nobody, ownerLine } from "../../tools/iptables-restore.ts";
import { linesOf } from "../../tools/iptables-save.ts";
import { dispatchChains, type Table } from "./names.ts";
import type { RenderedService } from "./service-text.ts";
import type { IptablesState } from "./state.ts";

export interface OwnedLines {
  readonly owner: string;
  readonly lines: readonly string[];
}

/** What is to happen to one dispatch chain. */
export interface DispatchChange {
  readonly added: readonly OwnedLines[];
  readonly removed: readonly string[];
  /** The chain is missing, or its end is not what it should be. */
  readonly broken: boolean;
}

export interface DispatchText {
  /** Chains to empty or create; before any rule, since rules may jump to them. */
  readonly declared: string[];
  readonly rules: string[];
  readonly written: number;
}

/**
 * Costs with iptables-nft at 5,000 rules, in rules written anew (measured: insertion 1, first deletion about 900 because
 * the chain is read and searched, further ones 40; a written rule 0.06 ms).
 */
const firstDeletion = 0.18;
const nextDeletion = 0.008;

/** Restore input for one dispatch chain. `position`: in `dispatchChains`; a broken or much changed chain is written anew. */
export function dispatchText(position: number, change: DispatchChange, to: IptablesState): DispatchText {
  const { table, chain } = dispatchChains[position] ?? { table: "nat", chain: "" };
  const size = to.dispatchRules[position] ?? 0;
  if (change.broken || rewriteIsCheaper(change, size)) return rewriting(table, chain, position, to);
  const rules = change.removed.map((line) => asVerb("-D", line));
  let written = 0;
  for (const { owner, lines } of change.added) {
    rules.push(ownerLine(owner));
    // Each goes to the head of the chain: the last one first keeps their order.
    for (let i = lines.length - 1; i >= 0; i--) rules.push(asVerb("-I", lines[i] ?? ""));
    written += lines.length;
  }
  if (change.added.length > 0) rules.push(nobody);
  return { declared: [], rules, written };
}

/** Lines that one Service has in a dispatch chain and the other rendering of it has not. */
export function linesBeyond(
  rendered: RenderedService | undefined,
  other: RenderedService | undefined,
  at: number,
): string[] {
  const mine = rendered?.dispatch[at] ?? "";
  const theirs = other?.dispatch[at] ?? "";
  if (mine === "" || mine === theirs) return [];
  const known = new Set(linesOf(theirs));
  return linesOf(mine).filter((line) => !known.has(line));
}

/** The rules that end a dispatch chain. */
export function tailOf(state: IptablesState, table: Table, chain: string): string {
  return state.fixed[table].tails.get(chain) ?? "";
}

// --- internal ---

function rewriteIsCheaper(change: DispatchChange, size: number): boolean {
  const deletions = change.removed.length;
  const insertions = change.added.reduce((n, { lines }) => n + lines.length, 0);
  if (deletions === 0) return insertions > 10 && insertions > size / 2;
  return insertions + size * (firstDeletion + nextDeletion * deletions) > size + 10;
}

function rewriting(table: Table, chain: string, position: number, to: IptablesState): DispatchText {
  const rules: string[] = [];
  for (const [key, service] of to.services) {
    const lines = service.dispatch[position] ?? "";
    if (lines !== "") rules.push(ownerLine(key), lines);
  }
  if (rules.length > 0) rules.push(nobody);
  const tail = tailOf(to, table, chain);
  if (tail !== "") rules.push(tail);
  return { declared: [declare(chain)], rules, written: (to.dispatchRules[position] ?? 0) + linesOf(tail).length };
}
