/** A cheap look for drift: a small table is read whole, of a large one only the names of its chains and its small sets. */
import type { Context } from "../../model/context.ts";
import type { ExecStep, StepResult } from "../../model/step.ts";
import { cut, type NftChain, type NftElement, TABLE } from "../../tools/nft.ts";
import { type ListedSet, type ListedTable, parseTable } from "../../tools/nft-list.ts";
import type { Drift, Reading } from "../backend.ts";
import { indexedMaps } from "./compact-base.ts";
import type { NftState } from "./state.ts";
import { flatten, sameHook, type Wanted } from "./wanted.ts";

/** Reading a table of this many chains costs about 20 ms; one of 5,000 more than a second. */
const SMALL = 500;
/** The same for elements (compact layout: 120,000 take a second and a half of CPU, and much memory). */
const FEW = 5_000;
/** Only so many findings are told; one is enough to repair everything. */
const TOLD = 10;

/** Compares names, hooks, numbers of rules and elements; never the text of rules, which nft may print in its own way. */
export function inspectTable(state: NftState, context: Context): Reading<readonly Drift[]> {
  const sizes = sizesOf(state);
  if (sizes.chains <= SMALL && sizes.elements <= FEW) return inspectWhole(flatten(state), context);
  return inspectNames(
    flatten(state, (set) => (sizes.bySet.get(set) ?? 0) <= SMALL),
    context,
  );
}

interface Sizes {
  readonly chains: number;
  readonly elements: number;
  readonly bySet: ReadonlyMap<string, number>;
}

/** Elements that two Services share are counted twice, which does no harm. */
function sizesOf(state: NftState): Sizes {
  const bySet = new Map<string, number>();
  const sum = { chains: 0, elements: 0 };
  for (const { chains, elements } of [state.base, ...state.services.values()]) {
    sum.chains += chains.length;
    sum.elements += elements.length;
    // Neighbours are mostly of one set.
    let start = 0;
    for (let i = 1; i <= elements.length; i++) {
      const set = elements[start]?.set;
      if (set === undefined || elements[i]?.set === set) continue;
      bySet.set(set, (bySet.get(set) ?? 0) + i - start);
      start = i;
    }
  }
  return { ...sum, bySet };
}

function inspectWhole(wanted: Wanted, { family }: Context): Reading<readonly Drift[]> {
  return {
    steps: [reading("-s", "list", "table", family.nft, TABLE)],
    parse: ([result]) => {
      const table = listed(result, `${family.nft} ${TABLE}`);
      if (table === "unreadable") return [];
      if (table === undefined) return [gone(family.nft)];
      const found = [...chainDrift(table, wanted, true)];
      for (const [name, elements] of wanted.elements) {
        const set = table.sets.get(name);
        if (set === undefined) found.push({ kind: "set", what: `set or map ${name} is missing` });
        else found.push(...elementDrift(name, set, elements));
      }
      return found.slice(0, TOLD);
    },
  };
}

function inspectNames(wanted: Wanted, { family }: Context): Reading<readonly Drift[]> {
  // Nothing leads to a shared map without elements.
  const small = [...wanted.elements].filter(([name, elements]) => elements.size > 0 || !indexedMaps.has(name));
  const kinds = small.map(([name]) => wanted.sets.get(name)?.kind ?? "set");
  return {
    steps: [
      reading("list", "chains", family.nft),
      ...small.map(([name], i) => reading("-s", "list", kinds[i] ?? "set", family.nft, TABLE, name)),
    ],
    parse: ([chains, ...sets]) => {
      const table = listed(chains, `${family.nft} ${TABLE}`);
      if (table === "unreadable") return [];
      if (table === undefined || table.chains.size === 0) return [gone(family.nft)];
      const found = [...chainDrift(table, wanted, false)];
      for (const [i, [name, elements]] of small.entries()) {
        const read = listed(sets[i], `${family.nft} ${TABLE}`);
        if (read === "unreadable") continue;
        const set = read?.sets.get(name);
        if (set === undefined) found.push({ kind: "set", what: `set or map ${name} is missing` });
        else found.push(...elementDrift(name, set, elements));
      }
      return found.slice(0, TOLD);
    },
  };
}

function reading(...args: readonly string[]): ExecStep {
  return { kind: "exec", tool: "nft", args, mayFail: true, about: `nft ${args.join(" ")}` };
}

function listed(result: StepResult | undefined, table: string): ListedTable | undefined | "unreadable" {
  if (result?.exitCode === 0) return parseTable(result.stdout, table);
  return result?.stderr.includes("No such file or directory") === true ? undefined : "unreadable";
}

function gone(family: string): Drift {
  return { kind: "table", what: `table ${family} ${TABLE} is missing` };
}

function* chainDrift(table: ListedTable, wanted: Wanted, rules: boolean): Iterable<Drift> {
  for (const [name, chain] of wanted.chains) {
    const found = table.chains.get(name);
    if (found === undefined) yield { kind: "chain", what: `chain ${name} is missing` };
    else if (!sameHook(found, chain.hook)) yield { kind: "chain", what: `chain ${name} has another hook or priority` };
    else if (rules && found.rules.length !== chain.rules.length) yield ruleDrift(chain, found.rules.length);
  }
  for (const [name, chain] of table.chains)
    if (chain.hook !== undefined && !wanted.chains.has(name))
      yield { kind: "chain", what: `base chain ${name} is not ours` };
}

function ruleDrift(chain: NftChain, found: number): Drift {
  return { kind: "rule", what: `chain ${chain.name} has ${found} rules instead of ${chain.rules.length}` };
}

function* elementDrift(name: string, set: ListedSet, wanted: ReadonlyMap<string, NftElement>): Iterable<Drift> {
  for (const [key, element] of wanted) {
    const found = set.elements.get(key);
    const comment = element.comment === undefined ? undefined : cut(element.comment);
    if (found === undefined) yield { kind: "element", what: `element ${key} of ${name} is missing` };
    else if (found.value !== element.value || found.comment !== comment)
      yield { kind: "element", what: `element ${key} of ${name} was changed` };
  }
  for (const key of set.elements.keys())
    if (!wanted.has(key)) yield { kind: "element", what: `element ${key} of ${name} is not ours` };
}
