/** Changes to the tables as data, and the restore input that makes them: bounded sections, in an order that never leaves a gap. */
import type { Context } from "../../model/context.ts";
import type { Step } from "../../model/step.ts";
import { declare, restoreStep, section } from "../../tools/iptables-restore.ts";
import type { Table } from "./names.ts";

/** Restore input that creates or refills chains. */
export interface Piece {
  readonly chains: number;
  readonly text: string;
}

export interface TableChanges {
  /** Chains that nothing refers to yet, or that are replaced as a whole; each after those it jumps to. */
  readonly early: readonly Piece[];
  /** Dispatch chains, jumps, single rules added and removed: the switch-over, in one transaction. */
  readonly late: readonly string[];
  /** Chains to delete, each before those it jumps to. */
  readonly stale: readonly string[];
  /** `late` makes packets be refused that were not before. */
  readonly refuses: boolean;
}

export type Changes = Readonly<Record<Table, TableChanges>>;

export const noChanges: TableChanges = { early: [], late: [], stale: [], refuses: false };

/**
 * Chains that one `*table … COMMIT` may name with iptables-nft. Too many: it is quadratic in them (measured, 1.8.9:
 * 5,500 chains 1.7 s, 22,000 42 s). Too few: each transaction reads the names of all chains, 0.5 µs each. The square root
 * balances the two.
 */
function sectionLimit(chains: number): number {
  return Math.max(300, Math.round(Math.sqrt(6 * chains)));
}

/** One restore for everything, or nothing. */
export function changeSteps(changes: Changes, context: Context): readonly Step[] {
  const sections = context.facts.iptables === "legacy" ? wholeTables(changes) : boundedSections(changes);
  if (sections.length === 0) return [];
  return [restoreStep(context.family, sections.flat(), about(changes, sections.length))];
}

// --- internal ---

function about(changes: Changes, sections: number): string {
  const chains = changes.nat.early.reduce((n, p) => n + p.chains, 0);
  const parts = `${chains} chains written, ${changes.nat.stale.length} deleted, ${sections} transactions`;
  return `Service rules: ${parts}`;
}

/** Legacy replaces the whole table with every COMMIT, whatever it names: one a table. */
function wholeTables(changes: Changes): string[][] {
  const nat = tableSection("nat", [...texts(changes.nat.early), ...changes.nat.late, ...deletions(changes.nat.stale)]);
  return inOrder(changes, [], nat, []);
}

/** Service chains first, in bounded transactions; then the switch-over; deletions last, when nothing refers to them. */
function boundedSections(changes: Changes): string[][] {
  const { early, late, stale } = changes.nat;
  const limit = sectionLimit(early.reduce((n, p) => n + p.chains, stale.length));
  const chunks = cut(early, limit);
  const last = chunks.at(-1);
  const lastChains = last?.reduce((n, p) => n + p.chains, 0) ?? 0;
  // A small change is one transaction: each costs a read of the table's chains.
  const together = lastChains + stale.length <= limit;
  if (together && last !== undefined) chunks.pop();
  const body = together ? [...texts(last ?? []), ...late, ...deletions(stale)] : late;
  const before = chunks.flatMap((chunk) => tableSection("nat", texts(chunk)));
  const after = together ? [] : deletionChunks(stale, limit).flatMap((names) => tableSection("nat", deletions(names)));
  return inOrder(changes, before, tableSection("nat", body), after);
}

/** Refusals go in before the NAT rules they stand in for go, and out after those are back. */
function inOrder(changes: Changes, before: string[][], nat: string[][], after: string[][]): string[][] {
  const { mangle, filter } = changes;
  const canary = tableSection("mangle", [...texts(mangle.early), ...mangle.late, ...deletions(mangle.stale)]);
  const refusals = tableSection("filter", [...texts(filter.early), ...filter.late, ...deletions(filter.stale)]);
  return filter.refuses
    ? [...canary, ...before, ...refusals, ...nat, ...after]
    : [...canary, ...before, ...nat, ...refusals, ...after];
}

/** No section for no change. */
function tableSection(table: Table, body: readonly string[]): string[][] {
  return body.length === 0 ? [] : [section(table, body)];
}

function texts(pieces: readonly Piece[]): string[] {
  return pieces.map((piece) => piece.text);
}

function cut(pieces: readonly Piece[], limit: number): Piece[][] {
  const chunks: Piece[][] = [];
  let chunk: Piece[] = [];
  let chains = 0;
  for (const piece of pieces) {
    if (chunk.length > 0 && chains + piece.chains > limit) {
      chunks.push(chunk);
      chunk = [];
      chains = 0;
    }
    chunk.push(piece);
    chains += piece.chains;
  }
  if (chunk.length > 0) chunks.push(chunk);
  return chunks;
}

function deletionChunks(names: readonly string[], limit: number): string[][] {
  const chunks: string[][] = [];
  for (let i = 0; i < names.length; i += limit) chunks.push(names.slice(i, i + limit));
  return chunks;
}

/** Empty all, then delete all: declared they exist, so a chain that is gone already is no error. */
function deletions(names: readonly string[]): string[] {
  return [...names.map(declare), ...names.map((name) => `-X ${name}\n`)];
}
