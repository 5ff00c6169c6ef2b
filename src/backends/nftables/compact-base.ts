/** The compact layout's shared objects: maps with the endpoints of all Services, and one balancing chain for each number of them. */
import type { Context } from "../../model/context.ts";
import type { Family } from "../../model/family.ts";
import type { Protocol } from "../../model/service.ts";
import type { NftChain, NftSet } from "../../tools/nft.ts";
import { dnatByIndex, type IndexedBy, indexedTypes } from "../../tools/nft-rule.ts";
import { externalRules } from "./service.ts";

/** Addresses, or node ports, whose address is any of the node's. */
export type FrontendKind = IndexedBy;

const protocols: readonly Protocol[] = ["tcp", "udp", "sctp"];
const kinds: readonly FrontendKind[] = ["address", "nodePort"];

/**
 * Map of endpoints by frontend and index. `local`: those on this node, for frontends whose Local policy has two lists,
 * because pods and the node itself may use all; every other frontend has one list, in the map of all.
 */
export function indexedMap(kind: FrontendKind, protocol: Protocol, local: boolean): string {
  return `${protocol}${kind === "nodePort" ? "-nodeport" : ""}${local ? "-local" : ""}-endpoints`;
}

/** Names hold all that the rules depend on. */
export function balancerName(kind: FrontendKind, protocol: Protocol, count: number, local: boolean): string {
  return `lb${kind === "nodePort" ? "-nodeport" : ""}${local ? "-local" : ""}-${protocol}-${count}`;
}

/** Where traffic from outside goes: `local` is undefined without a Local policy. */
export function outsideName(kind: FrontendKind, protocol: Protocol, all: number, local: number | undefined): string {
  const name = kind === "nodePort" ? "nodeport" : "external";
  return local === undefined ? `${name}-${protocol}-${all}` : `${name}-local-${protocol}-${all}-${local}`;
}

const maps = protocols.flatMap((protocol) =>
  kinds.flatMap((kind) => [false, true].map((local) => ({ protocol, kind, name: indexedMap(kind, protocol, local) }))),
);

export const indexedMaps: ReadonlySet<string> = new Set(maps.map(({ name }) => name));

export function compactSets(family: Family): readonly NftSet[] {
  return maps.map(({ protocol, kind, name }): NftSet => {
    const { key, value } = indexedTypes(family, kind, protocol);
    return { kind: "map", name, type: key, valueType: value, typeOf: true };
  });
}

/** The chains of these names and those that they lead to, in a fixed order. */
export function sharedChains(names: Iterable<string>, context: Context): readonly NftChain[] {
  const chains = new Map<string, NftChain>();
  for (const name of [...names].sort())
    for (const chain of chainsOf(name, context)) if (!chains.has(chain.name)) chains.set(chain.name, chain);
  return [...chains.values()];
}

// --- internal ---

function chainsOf(name: string, context: Context): readonly NftChain[] {
  const match = /^(lb|lb-nodeport|external|nodeport)(-local)?-(tcp|udp|sctp)-(\d+)(?:-(\d+))?$/.exec(name);
  if (match === null) throw new Error(`no shared chain ${name}`);
  const [, start = "", isLocal, protocol = "", first = "", second] = match;
  const kind: FrontendKind = start.endsWith("nodeport") ? "nodePort" : "address";
  const frontend = { kind, protocol: protocol as Protocol };
  if (start.startsWith("lb")) return [balancer(frontend, Number(first), isLocal !== undefined, context)];
  return outside(frontend, Number(first), second === undefined ? undefined : Number(second), context);
}

interface Frontend {
  readonly kind: FrontendKind;
  readonly protocol: Protocol;
}

/**
 * One of the first `count` elements, with equal odds. The second rule is for a packet that came by the old number of
 * endpoints and looks up an index in the moment after it went: the first element is always there.
 */
function balancer({ kind, protocol }: Frontend, count: number, local: boolean, { family }: Context): NftChain {
  const map = indexedMap(kind, protocol, local);
  const choices = count === 1 ? [1] : [count, 1];
  const rules = choices.map((n) => ({ expression: dnatByIndex(family, kind, protocol, map, n) }));
  return { name: balancerName(kind, protocol, count, local), rules };
}

function outside(frontend: Frontend, all: number, local: number | undefined, context: Context): readonly NftChain[] {
  const { kind, protocol } = frontend;
  const ofAll = all > 0 ? balancer(frontend, all, false, context) : undefined;
  const ofLocal = local !== undefined && local > 0 ? balancer(frontend, local, true, context) : undefined;
  const target = local === undefined ? ofAll : ofLocal;
  const way = { local: local !== undefined, cluster: ofAll?.name, target: target?.name };
  const own = { name: outsideName(kind, protocol, all, local), rules: externalRules(context, way) };
  return [ofAll, ofLocal, own].filter((chain) => chain !== undefined);
}
