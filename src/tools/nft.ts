/** nft's nouns as data, and the text of one transaction for `nft -f -`: the only place that prints and quotes for nft. */
import type { Family } from "../model/family.ts";

/** The name of our table in either family. */
export const TABLE = "kube-proxy";

/** One rule: the expression as nft itself prints it (nft-rule.ts builds it), and a comment. */
export interface NftRule {
  readonly expression: string;
  readonly comment?: string;
}

export interface NftHook {
  readonly type: "filter" | "nat";
  readonly hook: "prerouting" | "input" | "forward" | "output" | "postrouting";
  readonly priority: number;
}

export interface NftChain {
  readonly name: string;
  /** Set for base chains. */
  readonly hook?: NftHook;
  readonly comment?: string;
  readonly rules: readonly NftRule[];
}

/** A set or a map. */
export interface NftSet {
  readonly kind: "set" | "map";
  readonly name: string;
  /** Key type, e.g. `ipv4_addr . inet_proto . inet_service`; with `typeOf`, expressions of those types. */
  readonly type: string;
  /** `type` and `valueType` are expressions (`ip daddr . numgen random mod 2`): integers in keys have no type name. */
  readonly typeOf?: true;
  /** Maps: what keys lead to; `verdict` when absent. */
  readonly valueType?: string;
  readonly comment?: string;
  /** Seconds; set for sets that the packet path fills (`flags dynamic,timeout`): their elements are never ours to touch. */
  readonly dynamicTimeout?: number;
}

export interface NftElement {
  readonly set: string;
  /** As nft prints it: parts joined by ` . `. */
  readonly key: string;
  /** Maps only: `goto CHAIN`, `drop`, … */
  readonly value?: string;
  readonly comment?: string;
}

/** One atomic change of our table. Printed in the order of these fields, which never breaks a reference on the way. */
export interface NftTransaction {
  /** Start from nothing: whatever the table holds goes in the same moment. */
  readonly recreate?: boolean;
  readonly deleteElements?: readonly NftElement[];
  readonly flushChains?: readonly string[];
  /** Base chains only; nothing refers to them. */
  readonly deleteChains?: readonly string[];
  readonly deleteSets?: readonly string[];
  readonly addSets?: readonly NftSet[];
  /** Added when absent; the rules are appended, so flush what may hold some. */
  readonly addChains?: readonly NftChain[];
  readonly addElements?: readonly NftElement[];
}

const COMMENT_BYTES = 128;
const KEYS_PER_COMMAND = 1000;

/**
 * A comment as nft takes it: in quotes, at most 128 bytes, without what cannot be escaped inside quotes (nft has no
 * escape: a quote becomes an apostrophe, control characters become spaces).
 */
export function quote(comment: string): string {
  return `"${cut(comment)}"`;
}

/** The comment without its quotes, as a listing shows it. */
export function cut(comment: string): string {
  // A character outside printable ASCII is replaced: a cut inside one would leave bytes that the kernel's users choke on.
  const plain = comment
    .replace(/"/g, "'")
    .replace(/[^\x20-\x7e]/g, " ")
    .replace(/\\/g, "/");
  return plain.length > COMMENT_BYTES ? plain.slice(0, COMMENT_BYTES) : plain;
}

/** One rule as a line of a chain block. */
export function printRule(rule: NftRule): string {
  return rule.comment === undefined ? rule.expression : `${rule.expression} comment ${quote(rule.comment)}`;
}

/** `KEY comment "…" : VERDICT`, as in a listing. */
export function printElement(element: NftElement): string {
  const comment = element.comment === undefined ? "" : ` comment ${quote(element.comment)}`;
  return `${element.key}${comment}${element.value === undefined ? "" : ` : ${element.value}`}`;
}

/** `ipv4_addr`, `inet_proto . inet_service : verdict`. */
export function printType(set: NftSet): string {
  return set.kind === "map" ? `${set.type} : ${set.valueType ?? "verdict"}` : set.type;
}

/** `type …` and the other lines of a set's block, without elements. */
export function printSetSpec(set: NftSet): readonly string[] {
  const lines = [`${set.typeOf === true ? "typeof" : "type"} ${printType(set)}`];
  // 65,535 is what the kernel gives a dynamic set that names no size; saying it keeps older kernels equal.
  if (set.dynamicTimeout !== undefined)
    lines.push("size 65535", "flags dynamic,timeout", `timeout ${set.dynamicTimeout}s`);
  if (set.comment !== undefined) lines.push(`comment ${quote(set.comment)}`);
  return lines;
}

function printChain(chain: NftChain): string {
  const lines = [`\tchain ${chain.name} {`];
  const { hook } = chain;
  if (hook !== undefined) lines.push(`type ${hook.type} hook ${hook.hook} priority ${hook.priority}; policy accept;`);
  if (chain.comment !== undefined) lines.push(`comment ${quote(chain.comment)}`);
  for (const rule of chain.rules) lines.push(printRule(rule));
  lines.push("\t}");
  return lines.join("\n");
}

/** Elements grouped by set, a bounded number in one command, one a line so that an error names the culprit's line. */
function printElements(verb: "add" | "delete", table: string, elements: readonly NftElement[]): string[] {
  const bySet = new Map<string, string[]>();
  for (const element of elements) {
    const list = bySet.get(element.set) ?? [];
    if (list.length === 0) bySet.set(element.set, list);
    list.push(verb === "add" ? printElement(element) : element.key);
  }
  const out: string[] = [];
  for (const [set, lines] of bySet)
    for (let i = 0; i < lines.length; i += KEYS_PER_COMMAND)
      out.push(`${verb} element ${table} ${set} {\n${lines.slice(i, i + KEYS_PER_COMMAND).join(",\n")}\n}`);
  return out;
}

/** The input of `nft -f -` in pieces, or none when there is nothing to do. */
export function printTransaction(family: Family, change: NftTransaction): readonly string[] {
  const table = `${family.nft} ${TABLE}`;
  const out: string[] = [];
  if (change.recreate === true) out.push(`add table ${table}`, `delete table ${table}`);
  out.push(`add table ${table}`);
  const head = out.length;
  out.push(...printElements("delete", table, change.deleteElements ?? []));
  for (const name of change.flushChains ?? []) out.push(`flush chain ${table} ${name}`);
  for (const name of change.deleteChains ?? []) out.push(`delete chain ${table} ${name}`);
  for (const name of change.deleteSets ?? []) out.push(`delete set ${table} ${name}`);
  const sets = change.addSets ?? [];
  const chains = change.addChains ?? [];
  if (sets.length + chains.length > 0) {
    // A block, as nft lists it: nft creates its chains and sets before the rules, and it is a quarter shorter than commands.
    out.push(`table ${table} {`);
    for (const set of sets) out.push(`\t${set.kind} ${set.name} {\n${printSetSpec(set).join("\n")}\n\t}`);
    for (const chain of chains) out.push(printChain(chain));
    out.push("}");
  }
  out.push(...printElements("add", table, change.addElements ?? []));
  return out.length === head && change.recreate !== true ? [] : out.map((piece) => `${piece}\n`);
}

/**
 * The input that removes chains that nothing refers to any more. Each is added first, so that removing one that
 * somebody else already removed is no error.
 */
export function printChainRemoval(family: Family, chains: readonly string[]): readonly string[] {
  const table = `${family.nft} ${TABLE}`;
  const lines = [...chains.map((name) => `add chain ${table} ${name}`)];
  for (const name of chains) lines.push(`flush chain ${table} ${name}`);
  for (const name of chains) lines.push(`delete chain ${table} ${name}`);
  return lines.map((line) => `${line}\n`);
}

/** The input that removes our table, present or not. */
export function printTableRemoval(family: Family): readonly string[] {
  return [`add table ${family.nft} ${TABLE}\n`, `delete table ${family.nft} ${TABLE}\n`];
}
