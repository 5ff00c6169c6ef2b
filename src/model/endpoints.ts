/** From slices to the endpoint lists of one Service port: who gets cluster-wide, who gets local traffic, who none. */
import type { SliceEndpoint } from "./endpoint-slice.ts";
import { joinHostPort } from "./ip.ts";
import type { Endpoint } from "./plan.ts";
import type { ServicePort } from "./service.ts";
import type { ServiceInput } from "./snapshot.ts";
import { topologyCut, withinCut } from "./topology.ts";

export interface Here {
  readonly nodeName: string;
  readonly zone: string;
}

export interface EndpointLists {
  readonly cluster: readonly Endpoint[];
  readonly local: readonly Endpoint[];
  /** Union of the lists in use. */
  readonly reachable: readonly Endpoint[];
  readonly unused: readonly Endpoint[];
  /** Some endpoint, on whatever node, could answer. */
  readonly any: boolean;
}

interface Candidate {
  readonly slice: SliceEndpoint;
  readonly endpoint: Endpoint;
  readonly address: string;
}

const empty: readonly Endpoint[] = [];

/**
 * Ready endpoints serve; where there is none, those that still serve while terminating do (KEP-1669). Topology cuts
 * only the cluster-wide list.
 */
export function endpointLists(
  input: ServiceInput,
  port: ServicePort,
  here: Here,
  family: string,
  uses: { readonly cluster: boolean; readonly local: boolean },
): EndpointLists {
  const all = candidates(input, port, here, family);
  const cluster = uses.cluster ? clusterList(all, here) : empty;
  const local = uses.local ? usable(all.filter((c) => c.endpoint.local)) : empty;
  const any = cluster.length > 0 || (uses.local && usable(all).length > 0);
  const reachable = union(cluster, local, all);
  const unused =
    reachable.length === all.length ? empty : all.map((c) => c.endpoint).filter((e) => !reachable.includes(e));
  return { cluster, local, reachable, unused, any };
}

// --- internal ---

/** Endpoints of one port, sorted by address, one an address: a ready or local one is preferred to its double. */
function candidates(input: ServiceInput, port: ServicePort, here: Here, family: string): readonly Candidate[] {
  const byAddress = new Map<string, Candidate>();
  for (const slice of input.slices) {
    if (slice.family !== family) continue;
    for (const p of slice.ports) {
      if (p.name !== port.name || p.protocol !== port.protocol) continue;
      for (const e of slice.endpoints) {
        const address = joinHostPort(e.ip, p.port);
        const old = byAddress.get(address);
        const local = e.nodeName !== "" && e.nodeName === here.nodeName;
        if (old !== undefined && (old.endpoint.ready || !e.ready) && (old.endpoint.local || !local)) continue;
        const { ip, ready, serving, terminating } = e;
        byAddress.set(address, {
          slice: e,
          endpoint: { ip, port: p.port, local, ready, serving, terminating },
          address,
        });
      }
    }
  }
  return [...byAddress.values()].sort((a, b) => (a.address < b.address ? -1 : 1));
}

function usable(list: readonly Candidate[]): readonly Endpoint[] {
  const ready = list.filter((c) => c.endpoint.ready);
  const chosen = ready.length > 0 ? ready : list.filter((c) => c.endpoint.serving && c.endpoint.terminating);
  return chosen.map((c) => c.endpoint);
}

function clusterList(all: readonly Candidate[], here: Here): readonly Endpoint[] {
  const cut = topologyCut(
    all.map((c) => c.slice),
    here.nodeName,
    here.zone,
  );
  return usable(all.filter((c) => !c.endpoint.ready || withinCut(c.slice, cut, here.nodeName, here.zone)));
}

function union(a: readonly Endpoint[], b: readonly Endpoint[], all: readonly Candidate[]): readonly Endpoint[] {
  if (b.length === 0 || b.every((e) => a.includes(e))) return a;
  if (a.length === 0) return b;
  const either = new Set([...a, ...b]);
  return all.map((c) => c.endpoint).filter((e) => either.has(e));
}
