/** From what the kernel was read to hold to the desired state: what is right stays, all else is corrected in one transaction. */
import type { Context } from "../../model/context.ts";
import type { StepResult } from "../../model/step.ts";
import { cut, type NftChain, type NftElement, type NftSet, printRule, printType, TABLE } from "../../tools/nft.ts";
import { type ListedChain, type ListedSet, type ListedTable, parseTable } from "../../tools/nft-list.ts";
import type { Change, Reading } from "../backend.ts";
import { type Edit, elementId, newEdit, usesAny } from "./edit.ts";
import type { NftState } from "./state.ts";
import { changeOf } from "./transactions.ts";
import { flatten, sameHook, type Wanted } from "./wanted.ts";

export type NftObserved =
  | { readonly kind: "absent" }
  /** The tool failed on our own table: only replacing it as a whole helps. */
  | { readonly kind: "unreadable"; readonly why: string }
  | { readonly kind: "table"; readonly table: ListedTable };

/** Reads our table only: other programs' tables have crashed older nft. */
export function observeTable({ family }: Context): Reading<NftObserved> {
  return {
    steps: [
      {
        kind: "exec",
        tool: "nft",
        args: ["-s", "list", "table", family.nft, TABLE],
        mayFail: true,
        timeoutMs: 120_000,
        about: `table ${family.nft} ${TABLE}`,
      },
    ],
    parse: ([result]) => parseObserved(result, `${family.nft} ${TABLE}`),
  };
}

function parseObserved(result: StepResult | undefined, table: string): NftObserved {
  if (result?.exitCode === 0) return { kind: "table", table: parseTable(result.stdout, table) };
  const why = result?.stderr.trim().split("\n")[0] ?? "nothing was read";
  return /No such file or directory/.test(why) ? { kind: "absent" } : { kind: "unreadable", why };
}

/** The change from an observation of any table. Elements that the packet path added (affinity) survive. */
export function repair(observed: NftObserved, to: NftState, context: Context, now: number): Change<NftState> {
  const wanted = flatten(to);
  const edit = newEdit();
  const table = observed.kind === "table" ? observed.table : undefined;
  const recreate = observed.kind === "unreadable" || (table !== undefined && isForeign(table, wanted));
  const known = recreate ? undefined : table;
  const replaced = repairSets(edit, known, wanted);
  repairChains(edit, known, wanted, replaced);
  repairElements(edit, known, wanted);
  return changeOf(edit, to, new Map(), context, now, 1_000, recreate);
}

/**
 * Whether the table can only be replaced as a whole: a chain that rules jump to has become a base chain or the reverse.
 * No program of ours makes such a table.
 */
function isForeign(table: ListedTable, wanted: Wanted): boolean {
  for (const [name, chain] of wanted.chains) {
    const listed = table.chains.get(name);
    if (listed !== undefined && (listed.hook === undefined) !== (chain.hook === undefined)) return true;
  }
  return false;
}

/** Returns the names of sets that go or are made anew: no rule may use them in that moment. */
function repairSets(edit: Edit, table: ListedTable | undefined, wanted: Wanted): ReadonlySet<string> {
  const touched = new Set<string>();
  for (const [name, listed] of table?.sets ?? []) {
    const set = wanted.sets.get(name);
    if (set !== undefined && specMatches(listed, set)) continue;
    edit.deleteSets.add(name);
    touched.add(name);
  }
  for (const [name, set] of wanted.sets)
    if (touched.has(name) || table?.sets.get(name) === undefined) edit.addSets.set(name, set);
  return touched;
}

function specMatches(listed: ListedSet, set: NftSet): boolean {
  if (listed.kind !== set.kind || listed.type !== printType(set)) return false;
  const flags = set.dynamicTimeout === undefined ? [] : ["dynamic", "timeout"];
  return listed.timeout === (set.dynamicTimeout ?? 0) && flags.join() === [...listed.flags].sort().join();
}

function repairChains(edit: Edit, table: ListedTable | undefined, wanted: Wanted, replaced: ReadonlySet<string>): void {
  for (const [name, chain] of wanted.chains) {
    const listed = table?.chains.get(name);
    const hookRight = listed === undefined || sameHook(listed, chain.hook);
    if (listed !== undefined && hookRight && sameListed(listed, chain, replaced)) continue;
    edit.addChains.set(name, chain);
    if (listed !== undefined) edit.flushChains.add(name);
    if (!hookRight) edit.deleteChains.add(name);
  }
  for (const [name, listed] of table?.chains ?? []) {
    if (wanted.chains.has(name)) continue;
    // Nothing can refer to a base chain: it goes at once, with all that it did to packets.
    if (listed.hook !== undefined) {
      edit.flushChains.add(name);
      edit.deleteChains.add(name);
    } else edit.stale.add(name);
  }
}

/**
 * Whether the listed rules are exactly ours. The texts differ harmlessly where nft prints in another way than we write;
 * then the chain is written once more, in the same transaction. They are never equal for a rule that does something else.
 */
function sameListed(listed: ListedChain, chain: NftChain, replaced: ReadonlySet<string>): boolean {
  if (listed.rules.length !== chain.rules.length) return false;
  return chain.rules.every(
    (rule, i) => printRule(rule) === listed.rules[i] && (replaced.size === 0 || !usesAny(rule.expression, replaced)),
  );
}

function repairElements(edit: Edit, table: ListedTable | undefined, wanted: Wanted): void {
  for (const [name, elements] of wanted.elements) {
    const listed = edit.deleteSets.has(name) ? undefined : table?.sets.get(name)?.elements;
    if (listed !== undefined && listed.size > 0) repairSet(edit, name, listed, elements);
    else for (const element of elements.values()) edit.bulk.push(element);
  }
}

function repairSet(
  edit: Edit,
  set: string,
  listed: ListedSet["elements"],
  elements: ReadonlyMap<string, NftElement>,
): void {
  for (const [key, found] of listed) {
    const element = elements.get(key);
    const comment = element?.comment === undefined ? undefined : cut(element.comment);
    if (element !== undefined && element.value === found.value && comment === found.comment) continue;
    const gone = { set, key, ...(found.value === undefined ? {} : { value: found.value }) };
    edit.deleteElements.set(elementId(gone), gone);
  }
  for (const [key, element] of elements)
    if (!listed.has(key) || edit.deleteElements.has(elementId(element)))
      edit.addElements.set(elementId(element), element);
}
