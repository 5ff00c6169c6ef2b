/** YAML text to nodes with positions, read as Go's YAML reads it: version 1.1 booleans and numbers, merge keys, no dates. */
import { type Document, isAlias, isMap, isScalar, LineCounter, type Node, type Pair, parseAllDocuments } from "yaml";
import { ConfigError, fault, type Warning } from "./config-error.ts";

export interface YamlFile {
  readonly name: string;
  readonly document: Document.Parsed | undefined;
  /** `name:line:column` of a node; `name` when it has no place. */
  readonly placeOf: (node: unknown) => string;
  readonly warnings: readonly Warning[];
}

export interface Entry {
  readonly key: string;
  readonly keyPlace: string;
  readonly value: unknown;
  /** The same key stands earlier in this mapping. */
  readonly repeated: boolean;
}

const octal = {
  tag: "tag:yaml.org,2002:int",
  default: true,
  identify: () => false,
  test: /^[-+]?0o[0-7_]+$/,
  resolve: (text: string) => Number.parseInt(text.replace(/_/g, "").replace("0o", ""), 8),
} as const;

/** Throws ConfigError on a syntax error, naming its line. Only the first document counts. */
export function readYaml(name: string, text: string): YamlFile {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text, {
    version: "1.1",
    merge: true,
    uniqueKeys: false,
    prettyErrors: true,
    lineCounter: lines,
    customTags: (tags) => tags.filter((tag) => !isForeign(tag)).concat([octal]),
  });
  const [first] = Array.isArray(documents) ? documents : [];
  const error = first?.errors[0];
  if (error !== undefined) throw new ConfigError([syntaxFault(name, error)]);
  return {
    name,
    document: first,
    placeOf: (node) => {
      const start = (node as Partial<Node> | null | undefined)?.range?.[0];
      if (start === undefined) return name;
      const { line, col } = lines.linePos(start);
      return `${name}:${line}:${col}`;
    },
    warnings: documents.length > 1 ? [moreDocuments(name)] : [],
  };
}

/** The node that an alias stands for, or the node itself. */
export function resolveAlias(file: YamlFile, node: unknown): unknown {
  return isAlias(node) && file.document !== undefined ? node.resolve(file.document) : node;
}

/** The entries of a mapping in order, those merged in with `<<` first, so that later ones win. */
export function entriesOf(file: YamlFile, node: unknown, depth = 0): readonly Entry[] {
  if (!isMap(node)) return [];
  const merged = node.items
    .filter((pair) => isMergeKey(pair) && depth < 8)
    .flatMap((pair) => mergeSources(file, pair.value))
    .flatMap((source) => entriesOf(file, source, depth + 1).map((entry) => ({ ...entry, repeated: false })));
  const seen = new Set<string>();
  const own = node.items
    .filter((pair) => !isMergeKey(pair))
    .map((pair) => {
      const key = isScalar(pair.key) ? (pair.key.source ?? String(pair.key.value)) : String(pair.key);
      const repeated = seen.has(key);
      seen.add(key);
      return { key, keyPlace: file.placeOf(pair.key), value: resolveAlias(file, pair.value), repeated };
    });
  return [...merged, ...own];
}

function mergeSources(file: YamlFile, value: unknown): readonly unknown[] {
  const target = resolveAlias(file, value);
  const items = (target as { items?: readonly unknown[] } | null)?.items;
  // Earlier sources of a merge list win, and the last entry does: turn them round.
  return isMap(target) ? [target] : (items ?? []).map((item) => resolveAlias(file, item)).reverse();
}

function isMergeKey(pair: Pair): boolean {
  return isScalar(pair.key) && pair.key.source === "<<" && pair.key.type === "PLAIN";
}

/** Tags of YAML 1.1 that Go's reader does not have: dates, sexagesimal numbers, sets and the like. */
function isForeign(tag: unknown): boolean {
  if (typeof tag === "string") return /^(timestamp|floatTime|intTime|binary|set|omap|pairs)$/.test(tag);
  const { tag: name = "", format = "" } = tag as { tag?: string; format?: string };
  return format === "TIME" || /:(timestamp|binary|set|omap|pairs)$/.test(name);
}

function syntaxFault(name: string, error: { message: string; linePos?: readonly { line: number; col: number }[] }) {
  const { line, col } = error.linePos?.[0] ?? { line: 1, col: 1 };
  const text = (error.message.split("\n")[0] ?? "").replace(/ at line \d+, column \d+:?$/, "");
  return fault(`${name}:${line}:${col}`, `line ${line} (syntax)`, undefined, `not valid YAML: ${text}`);
}

function moreDocuments(name: string): Warning {
  return { fields: [], message: `${name}: only the first YAML document is read; what follows the --- is ignored` };
}
