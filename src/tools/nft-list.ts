/** What `nft -s list table FAMILY kube-proxy` prints, read back: chains, sets, maps and their elements. Tolerates lines it does not know. */

export interface ListedChain {
  /** `type … hook … priority …;` of a base chain as listed, else undefined. */
  readonly hook: ListedHook | undefined;
  /** Each rule on one line, as listed. */
  readonly rules: readonly string[];
}

export interface ListedHook {
  readonly type: string;
  readonly hook: string;
  /** Undefined: written in a way we do not know. */
  readonly priority: number | undefined;
  readonly accept: boolean;
}

export interface ListedSet {
  readonly kind: "set" | "map";
  /** `ipv4_addr . inet_proto`, for maps with ` : verdict`; expressions where the listing says `typeof`. */
  readonly type: string;
  readonly flags: readonly string[];
  /** Seconds; 0: none. */
  readonly timeout: number;
  /** Key → `[comment] [: verdict]` exactly as listed, without expiry. */
  readonly elements: ReadonlyMap<string, ListedElement>;
}

export interface ListedElement {
  readonly value: string | undefined;
  readonly comment: string | undefined;
}

export interface ListedTable {
  readonly chains: ReadonlyMap<string, ListedChain>;
  readonly sets: ReadonlyMap<string, ListedSet>;
}

/**
 * Reads the listing of one table (`ip kube-proxy`), passing over other tables in it, and over objects of other kinds
 * (counters, flow tables).
 */
export function parseTable(text: string, table: string): ListedTable {
  const chains = new Map<string, ListedChain>();
  const sets = new Map<string, ListedSet>();
  const lines = sectionOf(text, table).split("\n");
  for (let i = 0; i < lines.length; i++) {
    const head = /^\t(chain|set|map) (\S+) \{$/.exec(lines[i] ?? "");
    if (head === null) continue;
    const body: string[] = [];
    for (i++; i < lines.length && lines[i] !== "\t}"; i++) body.push(lines[i] ?? "");
    const [, kind, name = ""] = head;
    if (kind === "chain") chains.set(name, parseChain(body));
    else sets.set(name, parseSet(kind === "map" ? "map" : "set", body));
  }
  return { chains, sets };
}

// --- internal ---

function sectionOf(text: string, table: string): string {
  const start = text.startsWith(`table ${table} {`) ? 0 : text.indexOf(`\ntable ${table} {`);
  if (start < 0) return "";
  const end = text.indexOf("\n}\n", start);
  return end < 0 ? text.slice(start) : text.slice(start, end);
}

function parseChain(body: readonly string[]): ListedChain {
  let hook: ListedHook | undefined;
  const rules: string[] = [];
  for (const line of joinBraces(body)) {
    const base = /^type (\S+) hook (\S+) (?:device \S+ )?priority ([^;]+); policy (\S+);$/.exec(line);
    if (base !== null) hook = parseHook(base);
    else if (!/^comment "[^"]*"$/.test(line)) rules.push(line);
  }
  return { hook, rules };
}

function parseHook(match: RegExpExecArray): ListedHook {
  const [, type = "", hook = "", priority = "", policy] = match;
  return { type, hook, priority: parsePriority(priority), accept: policy === "accept" };
}

const named: Readonly<Record<string, number>> = {
  raw: -300,
  mangle: -150,
  dstnat: -100,
  filter: 0,
  security: 50,
  srcnat: 100,
};

/** `-110`, `filter`, `dstnat - 10`. */
function parsePriority(text: string): number | undefined {
  if (/^-?\d+$/.test(text)) return Number(text);
  const match = /^([a-z]+)(?: ([+-]) (\d+))?$/.exec(text);
  const start = named[match?.[1] ?? ""];
  if (match === null || start === undefined) return undefined;
  return start + (match[2] === "-" ? -1 : 1) * Number(match[3] ?? 0);
}

function parseSet(kind: "set" | "map", body: readonly string[]): ListedSet {
  let type = "";
  let flags: readonly string[] = [];
  let timeout = 0;
  let elements: ReadonlyMap<string, ListedElement> = new Map();
  for (const line of joinBraces(body)) {
    if (line.startsWith("type ")) type = line.slice(5);
    else if (line.startsWith("typeof ")) type = line.slice(7);
    else if (line.startsWith("flags ")) flags = line.slice(6).split(",");
    else if (line.startsWith("timeout ")) timeout = parseDuration(line.slice(8));
    else if (line.startsWith("elements = {")) elements = parseElements(line);
  }
  return { kind, type, flags, timeout, elements };
}

/** Seconds of `1d2h3m4s`, rounded down; NaN when it is none. */
export function parseDuration(text: string): number {
  const units: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0 };
  let total = 0;
  for (const [, n, unit] of text.matchAll(/(\d+)(ms|[dhms])/g)) total += Number(n) * (units[unit ?? ""] ?? 0);
  return /^(\d+(ms|[dhms]))+$/.test(text) ? total : Number.NaN;
}

function parseElements(line: string): ReadonlyMap<string, ListedElement> {
  const out = new Map<string, ListedElement>();
  const inner = line.slice(line.indexOf("{") + 1, line.lastIndexOf("}"));
  for (const part of splitElements(inner)) {
    const quoted = / comment "([^"]*)"/.exec(part);
    const plain = quoted === null ? part : part.replace(quoted[0], "");
    const colon = plain.indexOf(" : ");
    const key = (colon < 0 ? plain : plain.slice(0, colon)).replace(/ (timeout|expires) \S+/g, "").trim();
    out.set(key, { value: colon < 0 ? undefined : plain.slice(colon + 3).trim(), comment: quoted?.[1] });
  }
  return out;
}

/** Parts between the commas that are outside quotes. */
function splitElements(text: string): readonly string[] {
  if (!text.includes('"')) return text.split(",").filter((part) => part.trim() !== "");
  return text.match(/(?:[^",]|"[^"]*")+/g)?.filter((part) => part.trim() !== "") ?? [];
}

/** Trimmed lines, where one that opens a brace takes in the lines up to the brace's end. */
function joinBraces(body: readonly string[]): readonly string[] {
  const out: string[] = [];
  let open: string[] = [];
  let depth = 0;
  for (const line of body) {
    const text = line.trim();
    if (text === "") continue;
    open.push(text);
    depth += braces(text);
    if (depth > 0) continue;
    out.push(open.length === 1 ? text : open.join(" "));
    open = [];
    depth = 0;
  }
  if (open.length > 0) out.push(open.join(" "));
  return out;
}

function braces(text: string): number {
  if (!text.includes("{") && !text.includes("}")) return 0;
  const bare = text.includes('"') ? text.replace(/"[^"]*"/g, "") : text;
  let depth = 0;
  for (const char of bare) depth += char === "{" ? 1 : char === "}" ? -1 : 0;
  return depth;
}
