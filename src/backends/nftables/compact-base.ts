/** The compact layout's shared objects: maps with the endpoints of all Services, and one balancing chain for each number of them. */
import type { Context } from "../../model/context.ts";
import type { Family } from "../../model/family.ts";
import type { NftChain, NftSet } from "../../tools/nft.ts";
import { dnatByIndex, type IndexedBy, indexedTypes } from "../../tools/nft-rule.ts";
import { externalRules } from "./service.ts";

/** Endpoints by frontend and index: what the cluster IP, or a policy without Local, chooses from. */
const ENDPOINTS = "endpoints";
/** The same for node ports, whose address is any of the node's. */
const NODE_PORT_ENDPOINTS = "nodeport-endpoints";
/** Those on this node only, for frontends whose Local policy has two lists: pods and the node itself may use all. */
const LOCAL = "local-endpoints";
const NODE_PORT_LOCAL = "nodeport-local-endpoints";

export const indexedMaps: ReadonlySet<string> = new Set([ENDPOINTS, NODE_PORT_ENDPOINTS, LOCAL, NODE_PORT_LOCAL]);

/** What tells the two kinds of frontends apart. */
export interface FrontendKind {
  readonly by: IndexedBy;
  readonly all: string;
  readonly local: string;
  /** Before the numbers in chain names. */
  readonly balancer: string;
  readonly outside: string;
}

export const addresses: FrontendKind = {
  by: "address",
  all: ENDPOINTS,
  local: LOCAL,
  balancer: "lb",
  outside: "external",
};
export const nodePorts: FrontendKind = {
  by: "nodePort",
  all: NODE_PORT_ENDPOINTS,
  local: NODE_PORT_LOCAL,
  balancer: "lb-nodeport",
  outside: "nodeport",
};

/** Names hold all that the rules depend on. */
export function balancerName({ balancer }: FrontendKind, count: number, local: boolean): string {
  return `${balancer}${local ? "-local" : ""}-${count}`;
}

/** Where traffic from outside goes: `local` is undefined without a Local policy. */
export function outsideName({ outside }: FrontendKind, all: number, local: number | undefined): string {
  return local === undefined ? `${outside}-${all}` : `${outside}-local-${all}-${local}`;
}

export function compactSets(family: Family): readonly NftSet[] {
  return [addresses, nodePorts].flatMap(({ by, all, local }) => {
    const { key, value } = indexedTypes(family, by);
    return [all, local].map((name): NftSet => ({ kind: "map", name, type: key, valueType: value, typeOf: true }));
  });
}

/** The chains of these names and those that they lead to, in a fixed order. */
export function sharedChains(names: ReadonlySet<string>, context: Context): readonly NftChain[] {
  const chains = new Map<string, NftChain>();
  for (const name of [...names].sort()) {
    const match = /^(lb|lb-nodeport|external|nodeport)(-local)?-(\d+)(?:-(\d+))?$/.exec(name);
    if (match === null) throw new Error(`no shared chain ${name}`);
    const [, kind = "", local, first = "", second] = match;
    const frontend = kind === "lb" || kind === "external" ? addresses : nodePorts;
    if (kind.startsWith("lb")) add(chains, balancer(frontend, Number(first), local !== undefined, context));
    else for (const chain of outside(frontend, Number(first), second, context)) add(chains, chain);
  }
  return [...chains.values()];
}

// --- internal ---

function add(chains: Map<string, NftChain>, chain: NftChain): void {
  if (!chains.has(chain.name)) chains.set(chain.name, chain);
}

/**
 * One of the first `count` elements, with equal odds. The second rule is for a packet that came by the old number of
 * endpoints and looks up an index in the moment after it went: the first element is always there.
 */
function balancer(frontend: FrontendKind, count: number, local: boolean, { family }: Context): NftChain {
  const map = local ? frontend.local : frontend.all;
  const choices = count === 1 ? [1] : [count, 1];
  const rules = choices.map((n) => ({ expression: dnatByIndex(family, frontend.by, map, n) }));
  return { name: balancerName(frontend, count, local), rules };
}

function outside(
  frontend: FrontendKind,
  all: number,
  local: string | undefined,
  context: Context,
): readonly NftChain[] {
  const balancers: NftChain[] = [];
  const target = (count: number, own: boolean): string | undefined => {
    if (count === 0) return undefined;
    const chain = balancer(frontend, count, own, context);
    balancers.push(chain);
    return chain.name;
  };
  const cluster = target(all, false);
  const way = {
    local: local !== undefined,
    cluster,
    target: local === undefined ? cluster : target(Number(local), true),
  };
  const name = outsideName(frontend, all, local === undefined ? undefined : Number(local));
  return [...balancers, { name, rules: externalRules(context, way) }];
}
