/** Walks one packet through a chain of nftables rule values, reading each expression word by word. */
import { cidrContains } from "../../src/model/ip.ts";
import type { Walked } from "./fate.ts";

export interface Nft {
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /** Maps and sets: key to verdict, empty for sets. */
  readonly sets: ReadonlyMap<string, ReadonlyMap<string, string>>;
}

export interface NftWorld {
  readonly nft: Nft;
  readonly packet: Walked;
  readonly translated: boolean;
  /** Affinity sets that remember the sender. */
  readonly remembered: ReadonlySet<string>;
}

export interface NftExit {
  readonly probability: number;
  readonly mark: number;
  readonly verdict: "drop" | "reject" | "masquerade" | "accept" | "end" | { readonly dnat: string };
}

/** Every way through a chain. A `goto` does not come back, a `jump` does. */
export function walkNft(world: NftWorld, chain: string, mark: number, from = 0, depth = 0): readonly NftExit[] {
  if (depth > 16) throw new Error(`chains loop at ${chain}`);
  const rules = world.nft.chains.get(chain);
  if (rules === undefined) throw new Error(`no chain ${chain}`);
  let current = mark;
  for (let i = from; i < rules.length; i++) {
    const outcome = evaluate(rules[i] ?? "", current, world);
    if (outcome.kind === "next") {
      current = outcome.mark;
      continue;
    }
    return outcome.choices.flatMap(({ verdict, share }) => {
      const [verb, target = ""] = verdict.split(" ");
      const scale = (exits: readonly NftExit[]): readonly NftExit[] =>
        exits.map((e) => ({ ...e, probability: e.probability * share }));
      if (verb === "goto") return scale(walkNft(world, target, outcome.mark, 0, depth + 1));
      if (verb === "jump")
        return scale(
          walkNft(world, target, outcome.mark, 0, depth + 1).flatMap((e) =>
            e.verdict === "end"
              ? walkNft(world, chain, e.mark, i + 1, depth).map((f) => ({
                  ...f,
                  probability: f.probability * e.probability,
                }))
              : [e],
          ),
        );
      const end: NftExit["verdict"] = verb === "dnat" ? { dnat: target } : (verb as "drop");
      return [{ probability: share, mark: outcome.mark, verdict: end }];
    });
  }
  return [{ probability: 1, mark: current, verdict: "end" }];
}

// --- internal ---

type Outcome =
  | { readonly kind: "next"; readonly mark: number }
  | { readonly kind: "verdict"; readonly mark: number; readonly choices: readonly Choice[] };

interface Choice {
  readonly verdict: string;
  readonly share: number;
}

interface State {
  readonly world: NftWorld;
  mark: number;
}

/** What a statement does: go on with the rule, stop it, or decide. */
type Effect = boolean | readonly Choice[];
type Handler = readonly [RegExp, (match: readonly string[], state: State) => Effect];

const sure = (verdict: string): Effect => [{ verdict, share: 1 }];

function frontendKey({ packet }: NftWorld): string {
  return `${packet.daddr} . ${packet.protocol} . ${packet.dport}`;
}

function lookUp(world: NftWorld, name: string, key: string): string | undefined {
  const set = world.nft.sets.get(name);
  if (set === undefined) throw new Error(`no set or map ${name}`);
  return set.get(key);
}

function vmap(world: NftWorld, name: string, key: string): Effect {
  const verdict = lookUp(world, name, key);
  return verdict === undefined ? false : sure(verdict);
}

/** `10.0.0.0/8`, `10.0.0.1` or `{ a, b }`. */
function holds(text: string, ip: string): boolean {
  return text
    .replace(/[{}\s]/g, "")
    .split(",")
    .some((one) => cidrContains(one.includes("/") ? one : `${one}/${one.includes(":") ? 128 : 32}`, ip));
}

const addresses = String.raw`(\{[^}]*\}|[0-9a-f.:/]+)`;
const compare = (not: string | undefined, value: boolean): boolean => (not === undefined ? value : !value);

const handlers: readonly Handler[] = [
  [/^ct state new /, () => true],
  [/^ct status dnat /, (_, { world }) => world.translated],
  [/^(jump|goto) (\S+)/, ([, verb, chain]) => sure(`${verb} ${chain}`)],
  [
    /^ip6? daddr \. meta l4proto \. th dport vmap @(\S+)/,
    ([, n = ""], { world }) => vmap(world, n, frontendKey(world)),
  ],
  [
    /^meta l4proto \. th dport vmap @(\S+)/,
    ([, n = ""], { world }) => vmap(world, n, `${world.packet.protocol} . ${world.packet.dport}`),
  ],
  [
    /^ip6? saddr \. ip6? daddr \. meta l4proto \. th dport @(\S+) /,
    ([, n = ""], { world }) => lookUp(world, n, `${world.packet.saddr} . ${frontendKey(world)}`) !== undefined,
  ],
  [
    /^fib (s|d)addr type local /,
    ([, s], { world: { packet } }) => packet.isLocal(s === "s" ? packet.saddr : packet.daddr),
  ],
  [/^ip6? daddr @(\S+) /, ([, n = ""], { world }) => lookUp(world, n, world.packet.daddr) !== undefined],
  [/^ip6? saddr @(affinity-\S+) /, ([, n = ""], { world }) => world.remembered.has(n)],
  [
    new RegExp(`^ip6? daddr (!= )?${addresses} `),
    ([, not, a = ""], { world }) => compare(not, holds(a, world.packet.daddr)),
  ],
  [
    new RegExp(`^ip6? saddr (!= )?${addresses} `),
    ([, not, a = ""], { world }) => compare(not, holds(a, world.packet.saddr)),
  ],
  [
    /^iifname (!= )?"([^"]*)" /,
    ([, not, name = ""], { world: { packet } }) =>
      compare(not, name.endsWith("*") ? packet.iif.startsWith(name.slice(0, -1)) : packet.iif === name),
  ],
  [/^meta mark & (0x\w+) != 0x0+ /, ([, mask], state) => (state.mark & Number(mask)) !== 0],
  [/^meta mark set meta mark \| (0x\w+)\s*/, ([, mask], state) => set(state, state.mark | Number(mask))],
  [/^meta mark set meta mark \^ (0x\w+)\s*/, ([, mask], state) => set(state, state.mark ^ Number(mask))],
  [/^update @\S+ \{ ip6? saddr \}/, () => true],
  [/^meta l4proto (tcp|udp|sctp) /, ([, p], { world }) => world.packet.protocol === p],
  [/^counter /, () => true],
  [
    /^dnat ip6? to numgen random mod (\d+) map \{ (.*) \}/,
    ([, n, list = ""]) =>
      list.split(", ").map((one) => {
        const [ip = "", port = ""] = one.replace(/^\d+ : /, "").split(" . ");
        return { verdict: `dnat ${ip.includes(":") ? `[${ip}]` : ip}:${port}`, share: 1 / Number(n) };
      }),
  ],
  [
    /^dnat ip6? to (ip6? daddr \. )?(tcp|udp|sctp) dport \. numgen random mod (\d+) map @(\S+)/,
    ([, address, p, n, name = ""], { world }) =>
      world.packet.protocol === p && indexed(world, address !== undefined, Number(n), name),
  ],
  [/^dnat (?:ip6? )?to (\S+)/, ([, to]) => sure(`dnat ${to}`)],
  [
    /^numgen random mod (\d+) vmap \{ (.*) \}/,
    ([, n, list = ""]) =>
      list.split(", ").map((one) => ({ verdict: one.replace(/^\d+ : /, ""), share: 1 / Number(n) })),
  ],
  [/^numgen random mod (\d+) vmap @(\S+)/, ([, n, name = ""], { world }) => numbered(world, Number(n), name)],
  [/^masquerade( fully-random)?/, () => sure("masquerade")],
  [/^(drop|reject|accept)/, ([, verdict = ""]) => sure(verdict)],
];

function set(state: State, mark: number): true {
  state.mark = mark >>> 0;
  return true;
}

/** One of the first `n` endpoints of the packet's frontend; a list with a gap is an error of the layout. */
function indexed(world: NftWorld, byAddress: boolean, n: number, name: string): Effect {
  const { daddr, dport } = world.packet;
  const key = byAddress ? `${daddr} . ${dport}` : String(dport);
  return Array.from({ length: n }, (_, i) => {
    const [ip = "", port] = lookUp(world, name, `${key} . ${i}`)?.split(" . ") ?? [];
    if (port === undefined) throw new Error(`no element ${key} . ${i} in ${name}`);
    return { verdict: `dnat ${ip.includes(":") ? `[${ip}]` : ip}:${port}`, share: 1 / n };
  });
}

/** A named map from numbers to verdicts. */
function numbered(world: NftWorld, n: number, name: string): Effect {
  return Array.from({ length: n }, (_, i) => ({ verdict: lookUp(world, name, String(i)) ?? "drop", share: 1 / n }));
}

function evaluate(expression: string, mark: number, world: NftWorld): Outcome {
  const state: State = { world, mark };
  let rest = expression;
  while (rest !== "") {
    const handler = handlers.find(([pattern]) => pattern.test(rest));
    if (handler === undefined) throw new Error(`cannot read "${rest}" of "${expression}"`);
    const match = handler[0].exec(rest) as RegExpExecArray;
    const effect = handler[1](match, state);
    if (effect === false) return { kind: "next", mark: state.mark };
    if (effect !== true) return { kind: "verdict", mark: state.mark, choices: effect };
    rest = rest.slice(match[0].length).trimStart();
  }
  return { kind: "next", mark: state.mark };
}
