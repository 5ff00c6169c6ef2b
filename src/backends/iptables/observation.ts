/** What the kernel holds of ours, read with iptables-save, and what it takes to make it the wanted state. */
import type { Context } from "../../model/context.ts";
import type { StepResult } from "../../model/step.ts";
import { saveStep } from "../../tools/iptables-restore.ts";
import { emptyTable, jumpOf, linesOf, parseSave, type SavedTable } from "../../tools/iptables-save.ts";
import type { Reading } from "../backend.ts";
import type { Piece } from "./changes.ts";
import { combine, type Difference, deletionOrder, type FixedChanges, ownedPiece, type ServiceChanges } from "./diff.ts";
import { type DispatchChange, type OwnedLines, tailOf } from "./dispatch.ts";
import { jumpRepairs } from "./jumps.ts";
import { dispatchChains, isServiceChain, sharedChain, type Table, tables } from "./names.ts";
import { chainsOf } from "./service-text.ts";
import type { IptablesState } from "./state.ts";

export type IptablesObserved = Readonly<Record<Table, SavedTable>>;

export function observe(context: Context): Reading<IptablesObserved> {
  return { steps: tables.map((table) => saveStep(context.family, table)), parse: parseObserved };
}

export function parseObserved(results: readonly StepResult[]): IptablesObserved {
  const table = (name: Table): SavedTable => {
    return parseSave(results[tables.indexOf(name)]?.stdout ?? "").get(name) ?? emptyTable;
  };
  return { mangle: table("mangle"), filter: table("filter"), nat: table("nat") };
}

/**
 * Whatever is seen as we would write it is left alone: the printer prints what iptables-save prints. Where a version of
 * the tool spells a rule otherwise, that rule is written again, which is slower but right.
 */
export function diffObserved(seen: IptablesObserved, to: IptablesState): Difference {
  const dispatched = dispatchChains.map((_, at) => dispatchRepair(seen, to, at));
  const fixed = (table: Table): FixedChanges => fixedRepairs(seen[table], to, table);
  return combine(to, serviceRepairs(seen.nat, to), dispatched, {
    mangle: fixed("mangle"),
    filter: fixed("filter"),
    nat: fixed("nat"),
  });
}

// --- internal ---

function serviceRepairs(nat: SavedTable, to: IptablesState): ServiceChanges {
  const early: Piece[] = [];
  const wanted = new Set<string>();
  let written = 0;
  for (const [key, rendered] of to.services) {
    for (const chain of chainsOf(rendered)) {
      wanted.add(chain.name);
      if (nat.chains.get(chain.name) === chain.rules) continue;
      early.push(ownedPiece(key, chain));
      written += linesOf(chain.rules).length;
    }
  }
  const surplus = [...nat.chains.keys()].filter((name) => isServiceChain(name) && !wanted.has(name));
  const used = surplus.length === 0 ? new Set() : foreignTargets(nat);
  return { early, stale: deletionOrder(surplus.filter((name) => !used.has(name))), written };
}

/** Chains of ours that somebody else's rules jump to: deleting one would fail, and with it everything. */
function foreignTargets(table: SavedTable): ReadonlySet<string> {
  const targets = new Set<string>();
  for (const [name, rules] of table.chains) {
    if (rules === "" || isServiceChain(name) || isDispatch(name)) continue;
    for (const line of linesOf(rules)) {
      const target = jumpOf(line);
      if (target !== undefined && isServiceChain(target)) targets.add(target);
    }
  }
  return targets;
}

function isDispatch(name: string): boolean {
  return dispatchChains.some(({ chain }) => chain === name);
}

function dispatchRepair(seen: IptablesObserved, to: IptablesState, at: number): DispatchChange {
  const { table, chain } = dispatchChains[at] ?? { table: "nat", chain: "" };
  const rules = seen[table].chains.get(chain);
  const tail = tailOf(to, table, chain);
  if (rules === undefined || !rules.endsWith(tail)) return { added: [], removed: [], broken: true };
  const lines = linesOf(rules.slice(0, rules.length - tail.length));
  const present = new Set(lines);
  // A doubled rule does no harm, but a deletion by its text would take out only one of the two.
  if (present.size !== lines.length) return { added: [], removed: [], broken: true };
  const added: OwnedLines[] = [];
  for (const [owner, rendered] of to.services) {
    const wanted = linesOf(rendered.dispatch[at] ?? "");
    const missing = wanted.filter((line) => !present.has(line));
    for (const line of wanted) present.delete(line);
    if (missing.length > 0) added.push({ owner, lines: missing });
  }
  return { added, removed: [...present], broken: false };
}

function fixedRepairs(seen: SavedTable, to: IptablesState, table: Table): FixedChanges {
  const { chains, jumps } = to.fixed[table];
  const wrong = [...chains]
    .filter(([name, rules]) => seen.chains.get(name) !== rules)
    .map(([name, rules]) => ({ name, rules }));
  // Declared only when missing: declaring it would empty it of other people's rules.
  if (table === "filter" && !seen.chains.has(sharedChain)) wrong.push({ name: sharedChain, rules: "" });
  const shared = new Map(
    [...seen.chains]
      .filter(([name]) => !name.startsWith("KUBE-") || name === sharedChain)
      .map(([name, rules]) => [name, linesOf(rules)] as const),
  );
  return { chains: wrong, ...jumpRepairs(jumps, shared) };
}
