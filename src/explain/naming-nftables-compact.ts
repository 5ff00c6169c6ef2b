/** The compact nftables layout's objects behind the steps of an explanation: shared chains, and one map element an endpoint. */
import { compactPort } from "../backends/nftables/compact.ts";
import { indexedMap } from "../backends/nftables/compact-base.ts";
import type { Context } from "../model/context.ts";
import type { Endpoint } from "../model/plan.ts";
import type { NftElement } from "../tools/nft.ts";
import type { Knocked } from "./frontend.ts";
import type { Naming } from "./naming.ts";
import type { KernelObject } from "./verdict.ts";

/** What differs from the standard layout, whose naming is `standard`. */
export function compactNaming(context: Context, standard: Naming): Naming {
  const objects = (at: Knocked): readonly NftElement[] => compactPort(at.service, at.port, context).elements;
  const first = (at: Knocked): readonly KernelObject[] => firstChain(at, objects(at));
  // Ports with affinity are laid out as in the standard layout.
  const choose =
    <A extends readonly unknown[]>(own: (at: Knocked, ...rest: A) => readonly KernelObject[], other: typeof own) =>
    (at: Knocked, ...rest: A): readonly KernelObject[] =>
      at.port.affinitySeconds > 0 ? other(at, ...rest) : own(at, ...rest);
  return {
    ...standard,
    external: choose(first, standard.external),
    masquerade: choose(
      (at) => (at.kind === "cluster IP" ? standard.masquerade(at) : [...first(at), chain("masquerading")]),
      standard.masquerade,
    ),
    balance: choose((at) => (at.kind === "cluster IP" ? first(at) : []), standard.balance),
    endpoint: choose((at, e) => element(at, e, objects(at)), standard.endpoint),
  };
}

// --- internal ---

const chain = (name: string): KernelObject => ({ tool: "nft", kind: "chain", name });

/** Where the frontend's element leads. */
function firstChain(at: Knocked, elements: readonly NftElement[]): readonly KernelObject[] {
  const { port } = at;
  const [set, key] =
    at.kind === "node port"
      ? ["service-nodeports", `${port.protocol} . ${port.nodePort}`]
      : ["service-ips", `${at.ip} . ${port.protocol} . ${port.port}`];
  const target = elements.find((e) => e.set === set && e.key === key)?.value?.replace("goto ", "");
  return target === undefined ? [] : [chain(target)];
}

/** The endpoint's own elements: in the map of all, in that of this node's, or in both. */
function element(
  at: Knocked,
  { ip, port: number }: Endpoint,
  elements: readonly NftElement[],
): readonly KernelObject[] {
  const { port } = at;
  const nodePort = at.kind === "node port";
  const frontend = nodePort ? `${port.nodePort}` : `${at.ip} . ${port.port}`;
  const maps = [false, true].map((local) => indexedMap(nodePort ? "nodePort" : "address", port.protocol, local));
  return elements
    .filter((e) => maps.includes(e.set) && e.key.startsWith(`${frontend} . `) && e.value === `${ip} . ${number}`)
    .map(({ set, key }): KernelObject => ({ tool: "nft", kind: "map", name: set, key }));
}
