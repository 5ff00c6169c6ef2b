/** What the kernel holds of ours, read with iptables-save, and what it takes to make it the wanted state. */
import type { Context } from "../../model/context.ts";
import type { ExecStep, StepResult } from "../../model/step.ts";
import { splitWords } from "../../tools/iptables.ts";
import { saveStep } from "../../tools/iptables-restore.ts";
import { emptyTable, jumpOf, linesOf, parseSave, type SavedTable } from "../../tools/iptables-save.ts";
import type { Reading } from "../backend.ts";
import type { Piece } from "./changes.ts";
import { combine, type Difference, deletionOrder, type FixedChanges, ownedPiece, type ServiceChanges } from "./diff.ts";
import { type DispatchChange, type OwnedLines, tailOf } from "./dispatch.ts";
import { fixedRules } from "./fixed.ts";
import { chainOfLine, jumpRepairs } from "./jumps.ts";
import { dispatchChains, isServiceChain, sharedChain, type Table, tables } from "./names.ts";
import { chainsOf } from "./service-text.ts";
import type { IptablesState } from "./state.ts";

export type IptablesObserved = Readonly<Record<Table, SavedTable>>;

/**
 * The three tables. Where a rule of another program keeps iptables-nft from printing a table (measured, 1.8.9: exit 0,
 * a comment, no rules), questions for every jump follow: they alone tell what must not be added again.
 */
export function observe(context: Context): Reading<IptablesObserved> {
  return {
    steps: tables.map((table) => saveStep(context.family, table)),
    parse: parseObserved,
    further: (results) => {
      const seen = parseObserved(results);
      return tables.some((table) => seen[table].unreadable === true) ? askForJumps(context, seen) : undefined;
    },
  };
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

function askForJumps(context: Context, seen: IptablesObserved): Reading<IptablesObserved> {
  const fixed = fixedRules(context);
  const jumps = tables.flatMap((table) => fixed[table].jumps.map((line) => ({ table, line })));
  const ask = (table: Table, args: readonly string[]): ExecStep => ({
    kind: "exec",
    tool: context.family.iptables,
    args: ["-w", "5", "-t", table, ...args],
    mayFail: true,
    about: "look for a rule",
  });
  const questions = jumps.map(({ table, line }) => ask(table, ["-C", ...(splitWords(line) ?? []).slice(1)]));
  return {
    steps: [ask("filter", ["-S", sharedChain]), ...questions],
    parse: ([shared, ...answers]) => {
      const held = jumps.filter((_, i) => answers[i]?.exitCode === 0);
      return withHeld(seen, held, shared?.exitCode === 0);
    },
  };
}

/** What is known of an unreadable table: the jumps that are there, and whether KUBE-FIREWALL is. */
function withHeld(
  seen: IptablesObserved,
  held: readonly { readonly table: Table; readonly line: string }[],
  shared: boolean,
): IptablesObserved {
  const known = (table: Table): SavedTable => {
    if (seen[table].unreadable !== true) return seen[table];
    const chains = new Map<string, string>();
    if (table === "filter" && shared) chains.set(sharedChain, "");
    for (const { line } of held.filter((h) => h.table === table)) {
      chains.set(chainOfLine(line), (chains.get(chainOfLine(line)) ?? "") + line);
    }
    return { chains, unreadable: true };
  };
  return { mangle: known("mangle"), filter: known("filter"), nat: known("nat") };
}

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
  const again: string[] = [];
  for (const [owner, rendered] of to.services) {
    const wanted = linesOf(rendered.dispatch[at] ?? "");
    const missing = wanted.filter((line) => !present.has(line));
    for (const line of wanted) present.delete(line);
    if (missing.length === 0) continue;
    // Lines go to the head of the chain, and the order of a Service's own matters (localhost is counted first): all anew.
    added.push({ owner, lines: wanted });
    again.push(...wanted.filter((line) => !missing.includes(line)));
  }
  return { added, removed: [...present, ...again], broken: false };
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
