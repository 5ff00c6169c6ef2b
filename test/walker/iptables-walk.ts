/** Walks one packet through a chain of iptables rule values; chance splits the walk instead of being drawn. */
import { cidrContains } from "../../src/model/ip.ts";
import type { Rule } from "../../src/tools/iptables.ts";
import type { Walked } from "./fate.ts";

export type Table = ReadonlyMap<string, readonly Rule[]>;

export interface World {
  readonly packet: Walked;
  /** Sets that hold the entries of `-m set`, by name. */
  readonly sets: ReadonlyMap<string, ReadonlySet<string>>;
  /** Names of `recent` lists that remember the sender. */
  readonly remembered: ReadonlySet<string>;
  /** conntrack status: the destination was rewritten. */
  readonly translated: boolean;
  /** The virtual server that ipvs chose in LOCAL_OUT, as `proto ip port`. */
  readonly virtual?: string;
}

/** `mark` is the packet's mark when it left the table. */
export interface Exit {
  readonly probability: number;
  readonly mark: number;
  readonly verdict: "accept" | "drop" | "reject" | "masquerade" | "end" | { readonly dnat: string };
}

/** Walks a base chain; every way through it, `end` where no rule decided. */
export function walkChain(table: Table, chain: string, mark: number, world: World): readonly Exit[] {
  return walk(table, chain, 0, mark, world, 0).map((e) =>
    e.verdict === "return" ? { ...e, verdict: "end" } : e,
  ) as Exit[];
}

// --- internal ---

interface Inner {
  readonly probability: number;
  readonly mark: number;
  readonly verdict: Exit["verdict"] | "return";
}

const maxDepth = 16;

function walk(table: Table, chain: string, from: number, mark: number, world: World, depth: number): readonly Inner[] {
  if (depth > maxDepth) throw new Error(`chains loop at ${chain}`);
  const rules = table.get(chain);
  if (rules === undefined) throw new Error(`jump to missing chain ${chain}`);
  for (let i = from; i < rules.length; i++) {
    const rule = rules[i] as Rule;
    const chance = matches(rule, mark, world);
    if (chance === 0) continue;
    const next = (m: number): readonly Inner[] => walk(table, chain, i + 1, m, world, depth);
    const taken = take(table, rule, mark, world, depth, next);
    if (chance === 1) return taken;
    const rest = next(mark);
    return [...scale(taken, chance), ...scale(rest, 1 - chance)];
  }
  return [{ probability: 1, mark, verdict: "return" }];
}

function scale(exits: readonly Inner[], by: number): readonly Inner[] {
  return exits.map((e) => ({ ...e, probability: e.probability * by }));
}

function take(
  table: Table,
  rule: Rule,
  mark: number,
  world: World,
  depth: number,
  next: (mark: number) => readonly Inner[],
): readonly Inner[] {
  const words = rule.words.flat();
  const at = words.indexOf("-j");
  if (at < 0) return next(mark);
  const target = words[at + 1] ?? "";
  const done = (verdict: Inner["verdict"]): readonly Inner[] => [{ probability: 1, mark, verdict }];
  switch (target) {
    case "ACCEPT":
      return done("accept");
    case "DROP":
      return done("drop");
    case "REJECT":
      return done("reject");
    case "RETURN":
      return done("return");
    case "MASQUERADE":
      return done("masquerade");
    case "DNAT":
      return done({ dnat: words[words.indexOf("--to-destination") + 1] ?? "" });
    case "MARK":
      return next(newMark(words, mark));
    default:
      return walk(table, target, 0, mark, world, depth + 1).flatMap((e) =>
        e.verdict === "return" ? scale(next(e.mark), e.probability) : [e],
      );
  }
}

/** `--set-xmark value/mask`: the bits of the mask are cleared, then those of the value toggled. */
function newMark(words: readonly string[], mark: number): number {
  const [value = "0", mask = "0xffffffff"] = (words[words.indexOf("--set-xmark") + 1] ?? "").split("/");
  return ((mark & ~Number(mask)) ^ Number(value)) >>> 0;
}

const silent = new Set([
  "--comment",
  "--to-destination",
  "--set-xmark",
  "--reject-with",
  "--mask",
  "--seconds",
  "--reap",
]);

/** 0: no, 1: yes, between: by chance. */
function matches(rule: Rule, mark: number, world: World): number {
  let chance = 1;
  const words = rule.words.flat();
  const at = words.indexOf("-j");
  const conditions = at < 0 ? words : words.slice(0, at);
  let negated = false;
  for (let i = 0; i < conditions.length; i++) {
    const word = conditions[i] ?? "";
    if (word === "!") {
      negated = true;
      continue;
    }
    if (word === "-m" || word === "--nfacct-name" || silent.has(word)) {
      if (word !== "--reap") i++;
      continue;
    }
    const [result, used] = condition(word, conditions.slice(i + 1), words, mark, world);
    i += used;
    if (typeof result === "number") chance *= result;
    else if (result === negated) return 0;
    negated = false;
  }
  return chance;
}

/** The outcome of one option, and how many words of its value it used. */
function condition(
  option: string,
  values: readonly string[],
  rule: readonly string[],
  mark: number,
  world: World,
): readonly [boolean | number, number] {
  const [value = "", second = ""] = values;
  const { packet } = world;
  switch (option) {
    case "-s":
      return [cidrContains(asCIDR(value), packet.saddr), 1];
    case "-d":
      return [cidrContains(asCIDR(value), packet.daddr), 1];
    case "-i":
      return [value.endsWith("+") ? packet.iif.startsWith(value.slice(0, -1)) : packet.iif === value, 1];
    case "-p":
      return [packet.protocol === value, 1];
    case "--dport":
      return [packet.dport === Number(value), 1];
    case "--dst-type":
      return [packet.isLocal(packet.daddr), 1];
    case "--src-type":
      return [packet.isLocal(packet.saddr), 1];
    case "--mark": {
      const [wanted = "0", mask = "0xffffffff"] = value.split("/");
      return [(mark & Number(mask)) === Number(wanted), 1];
    }
    case "--ctstate":
      return [value.split(",").includes("NEW") || (world.translated && value.split(",").includes("DNAT")), 1];
    case "--probability":
      return [Number(value), 1];
    case "--mode":
      return [true, 1];
    case "--set":
    case "--rsource":
      return [true, 0];
    case "--name":
      return [true, 1];
    case "--rcheck":
      return [world.remembered.has(rule[rule.indexOf("--name") + 1] ?? ""), 0];
    case "--match-set":
      return [inSet(world, value, second), 2];
    case "--physdev-is-in":
      return [false, 0];
    case "--vproto":
      return [world.virtual?.split(" ")[0] === protocolOf[value], 1];
    case "--vaddr":
      return [world.virtual?.split(" ")[1] === value, 1];
    case "--vport":
      return [world.virtual?.split(" ")[2] === value, 1];
    default:
      throw new Error(`unknown option ${option} in ${rule.join(" ")}`);
  }
}

const protocolOf: Readonly<Record<string, string>> = { "6": "tcp", "17": "udp", "132": "sctp" };

function asCIDR(text: string): string {
  return text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`;
}

/** Entries as ipset prints them; the parts in the order of the directions. */
function inSet({ packet, sets }: World, name: string, directions: string): boolean {
  const entries = sets.get(name);
  if (entries === undefined) throw new Error(`unknown set ${name}`);
  const ip = (side: string): string => (side === "src" ? packet.saddr : packet.daddr);
  const [first = "", second, third] = directions.split(",");
  if (name.includes("NODE-PORT") && !name.includes("SCTP")) {
    // bitmap:port knows tcp and udp only.
    return packet.protocol !== "sctp" && entries.has(String(packet.dport));
  }
  if (second === undefined) return entries.has(ip(first));
  // All our sets have the destination port second, whatever the direction of the address.
  const pair = `${ip(first)},${packet.protocol}:${packet.dport}`;
  if (third === undefined) return entries.has(pair);
  if (entries.has(`${pair},${ip(third)}`)) return true;
  return [...entries].some(
    (e) => e.startsWith(`${pair},`) && cidrContains(asCIDR(e.slice(pair.length + 1)), ip(third)),
  );
}
