/** From the state last applied to the one wanted: only what belongs to Services that are not the same object. */
import { declare, nobody, ownerLine } from "../../tools/iptables-restore.ts";
import { linesOf } from "../../tools/iptables-save.ts";
import type { Changes, Piece, TableChanges } from "./changes.ts";
import { type DispatchChange, dispatchText, linesBeyond, type OwnedLines, tailOf } from "./dispatch.ts";
import { jumpChanges } from "./jumps.ts";
import { deletionRank, dispatchChains, type Table } from "./names.ts";
import { type ChainText, chainsOf, type RenderedService } from "./service-text.ts";
import type { IptablesState } from "./state.ts";

/** Changes and how many rules they write, by table. */
export interface Difference {
  readonly changes: Changes;
  readonly written: Readonly<Record<Table, number>>;
}

interface Changed {
  readonly key: string;
  readonly before: RenderedService | undefined;
  readonly after: RenderedService | undefined;
}

/**
 * What changed between two states of one family, by identity of the rendered Services. Pure; `to` is what the kernel holds
 * once the restore input of the result went in.
 */
export function diffStates(from: IptablesState, to: IptablesState): Difference {
  const changed = changedServices(from, to);
  const own = serviceChanges(changed);
  const dispatched = dispatchChains.map(({ table, chain }, at) => {
    const added: OwnedLines[] = [];
    const removed: string[] = [];
    for (const { key, before, after } of changed) {
      const lines = linesBeyond(after, before, at);
      if (lines.length > 0) added.push({ owner: key, lines });
      removed.push(...linesBeyond(before, after, at));
    }
    return { added, removed, broken: tailOf(from, table, chain) !== tailOf(to, table, chain) };
  });
  const fixed = (table: Table): FixedChanges => fixedChanges(from, to, table);
  return combine(to, own, dispatched, { mangle: fixed("mangle"), filter: fixed("filter"), nat: fixed("nat") });
}

export interface ServiceChanges {
  readonly early: readonly Piece[];
  readonly stale: readonly string[];
  readonly written: number;
}

export interface FixedChanges {
  readonly chains: readonly ChainText[];
  /** Whole lines of restore input: jumps added and removed. */
  readonly jumps: readonly string[];
  readonly jumpsAdded: number;
}

/** Puts the parts together, table by table. `late` holds declarations first, then rules, then jumps to them. */
export function combine(
  to: IptablesState,
  own: ServiceChanges,
  dispatched: readonly DispatchChange[],
  fixed: Readonly<Record<Table, FixedChanges>>,
): Difference {
  const written: Record<Table, number> = { mangle: 0, filter: 0, nat: own.written };
  const build = (table: Table): TableChanges => {
    const { chains, jumps, jumpsAdded } = fixed[table];
    const declared: string[] = [];
    const rules: string[] = [];
    dispatchChains.forEach((at, position) => {
      const change = dispatched[position];
      if (at.table !== table || change === undefined) return;
      if (!change.broken && change.added.length === 0 && change.removed.length === 0) return;
      const text = dispatchText(position, change, to);
      declared.push(...text.declared);
      rules.push(...text.rules);
      written[table] += text.written;
    });
    written[table] += jumpsAdded + chains.reduce((n, chain) => n + linesOf(chain.rules).length, 0);
    const early = chains.map((chain) => ({ chains: 1, text: declare(chain.name) + chain.rules }));
    return {
      early: table === "nat" ? [...early, ...own.early] : early,
      late: [...declared, ...rules, ...jumps],
      stale: table === "nat" ? own.stale : [],
      refuses: table === "filter" && dispatched.some((d, i) => i >= 2 && d.added.length > 0),
    };
  };
  return { changes: { mangle: build("mangle"), filter: build("filter"), nat: build("nat") }, written };
}

/** Chains as pieces under their owner's name. */
export function ownedPiece(owner: string, chain: ChainText): Piece {
  return { chains: 1, text: ownerLine(owner) + declare(chain.name) + chain.rules + nobody };
}

/** In an order in which each can be deleted. */
export function deletionOrder(names: readonly string[]): string[] {
  return [...names].sort((a, b) => deletionRank(a) - deletionRank(b));
}

/** All chains of a Service; more of them than a section may name go one by one. */
export function wholeService(key: string, rendered: RenderedService): Piece[] {
  if (rendered.chains === 0) return [];
  if (rendered.chains <= 100) return [{ chains: rendered.chains, text: rendered.text }];
  return chainsOf(rendered).map((chain) => ownedPiece(key, chain));
}

// --- internal ---

function changedServices(from: IptablesState, to: IptablesState): Changed[] {
  const changed: Changed[] = [];
  for (const [key, after] of to.services) {
    const before = from.services.get(key);
    if (before !== after) changed.push({ key, before, after });
  }
  // Without this every sync would walk the old map too.
  const added = changed.filter((c) => c.before === undefined).length;
  if (to.services.size - added === from.services.size) return changed;
  for (const [key, before] of from.services) {
    if (!to.services.has(key)) changed.push({ key, before, after: undefined });
  }
  return changed;
}

function serviceChanges(changed: readonly Changed[]): ServiceChanges {
  const early: Piece[] = [];
  const stale: string[] = [];
  let written = 0;
  for (const { key, before, after } of changed) {
    if (before === undefined && after !== undefined) {
      early.push(...wholeService(key, after));
      written += after.rules;
      continue;
    }
    const old = new Map((before === undefined ? [] : chainsOf(before)).map((c) => [c.name, c.rules]));
    for (const chain of after === undefined ? [] : chainsOf(after)) {
      if (old.get(chain.name) !== chain.rules) {
        early.push(ownedPiece(key, chain));
        written += linesOf(chain.rules).length;
      }
      old.delete(chain.name);
    }
    stale.push(...old.keys());
  }
  return { early, stale: deletionOrder(stale), written };
}

function fixedChanges(from: IptablesState, to: IptablesState, table: Table): FixedChanges {
  const before = from.fixed[table];
  const after = to.fixed[table];
  if (before === after) return { chains: [], jumps: [], jumpsAdded: 0 };
  const chains = [...after.chains]
    .filter(([name, rules]) => before.chains.get(name) !== rules)
    .map(([name, rules]) => ({ name, rules }));
  return { chains, ...jumpChanges(before.jumps, after.jumps) };
}
