/** A look for drift: names, jumps and rule counts against the state last applied, never the text of rules. */
import type { Context } from "../../model/context.ts";
import type { StepResult, SysctlStep } from "../../model/step.ts";
import { saveStep } from "../../tools/iptables-restore.ts";
import { jumpOf, linesOf, type SavedTable } from "../../tools/iptables-save.ts";
import { parseSysctls, readSysctls } from "../../tools/sysctl-read.ts";
import type { Drift, Reading } from "../backend.ts";
import { chainOfLine } from "./jumps.ts";
import { dispatchChains, isServiceChain, sharedChain, type Table, tables } from "./names.ts";
import { parseObserved } from "./observation.ts";
import { chainsOf } from "./service-text.ts";
import { sysctls } from "./setup.ts";
import type { IptablesState } from "./state.ts";

const mostDrifts = 20;

/**
 * Whole tables: every chain, its number of rules, every jump. Asking iptables-nft for single chains is no way out: each
 * question reads the table again (5,000 Services: 3 s of CPU each, 2 s for all of it at once; measured, 1.8.9).
 */
export function inspect(state: IptablesState, context: Context): Reading<readonly Drift[]> {
  const steps = tables.map((table) => saveStep(context.family, table));
  const wanted = sysctls(context);
  if (wanted.length > 0)
    steps.push(
      readSysctls(
        wanted.map(({ name }) => name),
        "read the sysctls of iptables mode",
      ),
    );
  const parse = (all: readonly StepResult[]): readonly Drift[] => {
    const results = wanted.length > 0 ? all.slice(0, -1) : all;
    const seen = parseObserved(results);
    const drifts = tables.flatMap((t) => tableDrifts(t, seen[t], state));
    drifts.push(...serviceDrifts(seen.nat, state));
    if (wanted.length > 0) drifts.push(...sysctlDrifts(wanted, all.at(-1)));
    const more = drifts.length - mostDrifts;
    return more <= 0 ? drifts : [...drifts.slice(0, mostDrifts), { kind: "rule", what: `and ${more} more` }];
  };
  return { steps, parse };
}

// --- internal ---

function sysctlDrifts(wanted: readonly SysctlStep[], result: StepResult | undefined): Drift[] {
  const values = parseSysctls(result?.stdout ?? "");
  return wanted.flatMap(({ name, value }) => {
    const found = values.get(name);
    if (found === undefined || Number(found) === value) return [];
    return [{ kind: "sysctl", what: `${name.replaceAll("/", ".")} is ${found}, not ${value}` }];
  });
}

function tableDrifts(table: Table, seen: SavedTable, state: IptablesState): Drift[] {
  // A rule of another program hides the table: nothing can be told.
  if (seen.unreadable === true) return [];
  const { chains, tails, jumps } = state.fixed[table];
  const expected = new Map([...chains].map(([name, rules]) => [name, count(rules)]));
  dispatchChains.forEach((at, i) => {
    if (at.table !== table) return;
    expected.set(at.chain, (state.dispatchRules[i] ?? 0) + count(tails.get(at.chain) ?? ""));
  });
  if (![...expected.keys()].some((name) => seen.chains.has(name))) {
    return [{ kind: "table", what: `${table}: all our chains are gone` }];
  }
  const drifts = [...expected].flatMap(([name, rules]) => chainDrift(table, name, seen.chains.get(name), rules));
  if (table === "filter" && !seen.chains.has(sharedChain)) drifts.push(gone(table, sharedChain));
  for (const line of jumps) {
    if (!hasJump(linesOf(seen.chains.get(chainOfLine(line)) ?? ""), line)) {
      drifts.push({ kind: "jump", what: `${table}: missing: ${line.trimEnd()}` });
    }
  }
  return drifts;
}

function chainDrift(table: string, name: string, seen: string | undefined, expected: number, of = ""): Drift[] {
  if (seen === undefined) return [gone(table, name, of)];
  const rules = count(seen);
  if (rules === expected) return [];
  return [{ kind: "rule", what: `${table} ${name}${of}: ${rules} rules instead of ${expected}` }];
}

function gone(table: string, name: string, of = ""): Drift {
  return { kind: "chain", what: `${table} ${name}${of}: the chain is gone` };
}

/** By target and, where the target is not a chain of ours, by comment: other versions of the tool may order options otherwise. */
function hasJump(lines: readonly string[], wanted: string): boolean {
  const target = jumpOf(wanted);
  const note = /--comment "[^"]*"/.exec(wanted)?.[0] ?? "";
  const named = target?.startsWith("KUBE-") === true;
  return lines.some((line) => jumpOf(line) === target && (named || line.includes(note)));
}

function serviceDrifts(nat: SavedTable, state: IptablesState): Drift[] {
  if (nat.unreadable === true) return [];
  const drifts: Drift[] = [];
  const wanted = new Set<string>();
  for (const [key, rendered] of state.services) {
    for (const chain of chainsOf(rendered)) {
      wanted.add(chain.name);
      drifts.push(...chainDrift("nat", chain.name, nat.chains.get(chain.name), count(chain.rules), ` (${key})`));
    }
  }
  for (const name of nat.chains.keys()) {
    if (isServiceChain(name) && !wanted.has(name))
      drifts.push({ kind: "chain", what: `nat ${name}: not ours any more` });
  }
  return drifts;
}

function count(rules: string): number {
  let lines = 0;
  for (let at = rules.indexOf("\n"); at >= 0; at = rules.indexOf("\n", at + 1)) lines++;
  return lines;
}
