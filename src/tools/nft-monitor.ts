/** Lines of `nft monitor`: what changed in any table, and which process did it. Foreign and odd lines are passed over. */
import type { ProxyMode } from "../model/context.ts";

export type NftObjectKind = "table" | "chain" | "rule" | "set" | "map" | "element" | "other";

export interface NftEvent {
  readonly verb: "add" | "delete" | "other";
  readonly kind: NftObjectKind;
  readonly family: string;
  readonly table: string;
  /** Chain of a rule, set of an element, else the object's own name; empty for tables. */
  readonly name: string;
  /** The rest of the line: hook, rule, elements. */
  readonly text: string;
}

/** One transaction of some process. `pid` 0 and an empty name: not told. */
export interface NftGeneration {
  readonly generation: number;
  readonly pid: number;
  readonly process: string;
  readonly events: readonly NftEvent[];
  /** Events that were too many to keep. */
  readonly more: number;
}

/** Lines that came since the last generation line. */
export interface NftPending {
  readonly events: readonly NftEvent[];
  readonly more: number;
}

export const nothingPending: NftPending = { events: [], more: 0 };

/** A transaction that loads a whole cluster has tens of thousands of lines; the first ones tell what it is about. */
const KEPT = 200;
/** A rule may be long, but what names it is at its start. */
const TEXT = 300;

/** The event of one line, or undefined for everything else. */
export function parseEvent(line: string): NftEvent | undefined {
  const match = /^(\w+) (\w+) (\w+) (\S+)(?: (.*))?$/.exec(line);
  if (match === null) return undefined;
  const [, verb = "", object = "", family = "", table = "", rest = ""] = match;
  if (!families.has(family)) return undefined;
  const kind = kindOf(object);
  const space = rest.indexOf(" ");
  const name = kind === "table" ? "" : space < 0 ? rest : rest.slice(0, space);
  const text = space < 0 || kind === "table" ? "" : rest.slice(space + 1).trim();
  return { verb: verbOf(verb), kind, family, table, name, text: text.slice(0, TEXT) };
}

/** `# new generation 8 by process 7149 (nft)`; undefined for other lines. */
export function parseGeneration(line: string): Omit<NftGeneration, "events" | "more"> | undefined {
  const match = /^# new generation (\d+)(?: by process (\d+) \((.*)\))?/.exec(line);
  if (match === null) return undefined;
  return { generation: Number(match[1]), pid: Number(match[2] ?? 0), process: match[3] ?? "" };
}

/** Takes one more line in: events gather until their generation line, which comes after them, makes them a whole. */
export function takeLine(
  pending: NftPending,
  line: string,
): { readonly pending: NftPending; readonly generation?: NftGeneration } {
  const head = parseGeneration(line);
  if (head !== undefined) return { pending: nothingPending, generation: { ...head, ...pending } };
  if (pending.events.length >= KEPT) return { pending: { events: pending.events, more: pending.more + 1 } };
  const event = parseEvent(line);
  if (event === undefined) return { pending };
  return { pending: { events: [...pending.events, event], more: pending.more } };
}

/** Whether an event is about objects that a proxy in this mode owns, or may be. Elements that packets added are not. */
export function concerns(event: NftEvent, mode: ProxyMode): boolean {
  if (event.family !== "ip" && event.family !== "ip6") return false;
  if (mode === "nftables")
    return event.table === "kube-proxy" && !(event.kind === "element" && event.name.startsWith("affinity-"));
  if (!iptablesTables.has(event.table)) return false;
  if (event.kind === "table") return event.verb === "delete";
  if (event.name.startsWith("KUBE-")) return true;
  // `delete rule ip nat PREROUTING handle 4` does not say which rule: it may have been our jump.
  if (event.kind === "chain" || event.verb !== "add") return event.verb !== "add";
  return event.text.includes("KUBE-");
}

/** One line for the log: `deleted chain services of table ip kube-proxy`. */
export function describeEvent({ verb, kind, family, table, name, text }: NftEvent): string {
  const done = verb === "add" ? "added" : verb === "delete" ? "deleted" : "changed";
  if (kind === "table") return `${done} table ${family} ${table}`;
  const place =
    kind === "rule" ? `rule of chain ${name}` : kind === "element" ? `element of ${name}` : `${kind} ${name}`;
  const detail = (kind === "element" || kind === "rule") && text !== "" ? ` (${text.slice(0, 120)})` : "";
  return `${done} ${place} of table ${family} ${table}${detail}`;
}

// --- internal ---

const families = new Set(["ip", "ip6", "inet", "arp", "bridge", "netdev"]);
const iptablesTables = new Set(["nat", "filter", "mangle", "raw"]);

function verbOf(word: string): NftEvent["verb"] {
  if (word === "add" || word === "create" || word === "insert") return "add";
  return word === "delete" || word === "destroy" ? "delete" : "other";
}

function kindOf(word: string): NftObjectKind {
  switch (word) {
    case "table":
    case "chain":
    case "rule":
    case "set":
    case "map":
    case "element":
      return word;
    default:
      return "other";
  }
}
