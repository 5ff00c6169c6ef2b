/** What differs between what the kernel holds (known or read) and what it should hold, as data, before any step is made. */
import { cidrContains, joinHostPort } from "../../model/ip.ts";
import type { IpSet } from "../../tools/ipset.ts";
import { comment, printRule } from "../../tools/iptables.ts";
import { jumps, setName, setsOf, type Table } from "./names.ts";
import { diffServers, type ServerDiff } from "./server-diff.ts";
import type { Element, IpvsObserved, IpvsState, ObservedServer, Rendered, VirtualServer } from "./state.ts";

export interface Difference {
  /** kube-ipvs0 must be made. */
  readonly device: boolean;
  readonly createSets: readonly IpSet[];
  /** Of a wrong type: every rule that uses them must go first. */
  readonly replaceSets: readonly string[];
  /** `NAME ENTRY`. */
  readonly addElements: readonly string[];
  readonly removeElements: readonly string[];
  readonly addAddresses: readonly string[];
  readonly removeAddresses: readonly string[];
  readonly servers: ServerDiff;
  /** Chains whose rules must be written, by table. */
  readonly chains: Readonly<Record<Table, readonly string[]>>;
  /** By table: jump rules to delete as printed, then those to insert at the heads of their chains. */
  readonly jumps: Readonly<Record<Table, JumpDifference>>;
  /** Rules of another mode stand in the chains: they serve until servers and addresses are there. */
  readonly takeover: boolean;
}

export interface JumpDifference {
  readonly remove: readonly string[];
  /** In the order in which they shall stand. */
  readonly insert: readonly string[];
}

/** From the state last applied: only Services whose rendering is another object are looked at. */
export function fromState(from: IpvsState, to: IpvsState, now: number): Difference {
  const before: Rendered[] = [];
  const after: Rendered[] = [];
  for (const [key, rendered] of to.services) {
    const old = from.services.get(key);
    if (old === rendered) continue;
    after.push(rendered);
    if (old !== undefined) before.push(old);
  }
  if (from.services.size + after.length !== to.services.size + before.length) {
    for (const [key, old] of from.services) if (!to.services.has(key)) before.push(old);
  }
  const elements = changeOf(before, after, to, elementsOf);
  const addresses = changeOf(before, after, to, (r) => r.addresses);
  return {
    device: false,
    createSets: [],
    replaceSets: [],
    addElements: named(elements.added, to),
    removeElements: named(elements.gone, to),
    addAddresses: addresses.added,
    removeAddresses: addresses.gone,
    servers: serversFromState(from, to, before, after, now),
    chains: {
      filter: changedChains("filter", from, to),
      nat: changedChains("nat", from, to),
    },
    jumps: { filter: noJumps, nat: noJumps },
    takeover: false,
  };
}

/** From what was read: everything is compared; rule texts are not, since the kernel may print them otherwise. */
export function fromObserved(seen: IpvsObserved, to: IpvsState, now: number): Difference {
  const all = [...to.services.values()];
  const wanted = new Set(all.flatMap((r) => r.addresses));
  const present = new Set(seen.addresses);
  return {
    device: !seen.device,
    ...setDifference(seen, to),
    addAddresses: [...wanted].filter((ip) => !present.has(ip)),
    removeAddresses: seen.addresses.filter((ip) => !wanted.has(ip)),
    servers: diffServers(seen.servers, serversOf(all), { now, before: to.draining }, (id) => isExcluded(id.ip, to)),
    chains: { filter: [...to.chains.filter.keys()], nat: [...to.chains.nat.keys()] },
    jumps: { filter: jumpDifference("filter", seen), nat: jumpDifference("nat", seen) },
    takeover: seen.chains.nat.has("KUBE-SERVICES") && !seen.chains.nat.has("KUBE-LOAD-BALANCER"),
  };
}

/** The jump rules of a table in order, as the tool prints them. */
export function jumpLines(table: Table): readonly string[] {
  return jumps[table].map((j) => printRule({ chain: j.chain, words: [comment(j.comment), ["-j", j.target]] }));
}

/** In a range that belongs to somebody else. */
export function isExcluded(ip: string, { context }: IpvsState): boolean {
  return context.ipvs.excludeCIDRs.some((cidr) => cidrContains(cidr, ip));
}

// --- internal ---

const noJumps: JumpDifference = { remove: [], insert: [] };

function elementsOf(rendered: Rendered): Iterable<string> {
  return rendered.elements.keys();
}

/** Items that changed Services brought, and those that left with them and that no other Service holds. */
function changeOf(
  before: readonly Rendered[],
  after: readonly Rendered[],
  to: IpvsState,
  items: (rendered: Rendered) => Iterable<string>,
): { readonly added: readonly string[]; readonly gone: readonly string[] } {
  const had = new Set(before.flatMap((r) => [...items(r)]));
  const has = new Set(after.flatMap((r) => [...items(r)]));
  const gone = new Set([...had].filter((item) => !has.has(item)));
  if (gone.size > 0) {
    for (const rendered of to.services.values()) {
      for (const item of items(rendered)) gone.delete(item);
      if (gone.size === 0) break;
    }
  }
  return { added: [...has].filter((item) => !had.has(item)), gone: [...gone] };
}

/** `SET ENTRY` with the set's name in the kernel. Sorted by set, so that the set that rejects is filled last. */
function named(items: readonly string[], { context }: IpvsState): readonly string[] {
  const names = setsOf(context.family).map((set) => set.name);
  const lines = items.map((item) => {
    const [key = "", entry = ""] = item.split(" ");
    return { name: setName(key as Element["set"], context.family), entry };
  });
  return lines.sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name)).map((l) => `${l.name} ${l.entry}`);
}

function serversOf(rendered: readonly Rendered[]): Map<string, VirtualServer> {
  const servers = new Map<string, VirtualServer>();
  for (const { servers: own } of rendered) for (const [key, server] of own) servers.set(key, server);
  return servers;
}

function serversFromState(
  from: IpvsState,
  to: IpvsState,
  before: readonly Rendered[],
  after: readonly Rendered[],
  now: number,
): ServerDiff {
  const next = serversOf(after);
  const old = new Map<string, ObservedServer>();
  for (const [key, server] of serversOf(before)) old.set(key, asObserved(server));
  for (const { id, real } of from.draining.values()) {
    const key = `${id.protocol} ${joinHostPort(id.ip, id.port)}`;
    const unchanged = old.has(key) ? undefined : findServer(to, key);
    if (unchanged !== undefined && !next.has(key)) {
      next.set(key, unchanged);
      old.set(key, asObserved(unchanged));
    }
    const server = old.get(key);
    if (server === undefined) continue;
    old.set(key, { ...server, reals: new Map([...server.reals, [real, { weight: 0, forward: "-m" }]]) });
  }
  // What we made we also remove, wherever it is: only what was read can be somebody else's.
  return diffServers(old, next, { now, before: from.draining }, () => false);
}

function findServer(state: IpvsState, key: string): VirtualServer | undefined {
  for (const { servers } of state.services.values()) {
    const server = servers.get(key);
    if (server !== undefined) return server;
  }
  return undefined;
}

function asObserved({ id, options, reals }: VirtualServer): ObservedServer {
  return { id, options, reals: new Map([...reals].map(([real, weight]) => [real, { weight, forward: "-m" }])) };
}

function changedChains(table: Table, from: IpvsState, to: IpvsState): readonly string[] {
  const old = from.chains[table];
  return [...to.chains[table]].filter(([name, text]) => old.get(name) !== text).map(([name]) => name);
}

function setDifference(
  seen: IpvsObserved,
  to: IpvsState,
): Pick<Difference, "createSets" | "replaceSets" | "addElements" | "removeElements"> {
  const wanted = new Set(named([...new Set([...to.services.values()].flatMap((r) => [...r.elements.keys()]))], to));
  const createSets: IpSet[] = [];
  const replaceSets: string[] = [];
  const present = new Set<string>();
  const removeElements: string[] = [];
  for (const set of setsOf(to.context.family)) {
    const found = seen.sets.get(set.name);
    const same = found?.set.type === set.type && found.set.family === set.family;
    if (found !== undefined && !same) replaceSets.push(set.name);
    if (!same) createSets.push(set);
    for (const entry of same ? found.entries : []) {
      const item = `${set.name} ${entry}`;
      present.add(item);
      if (!wanted.has(item)) removeElements.push(item);
    }
  }
  return { createSets, replaceSets, addElements: [...wanted].filter((item) => !present.has(item)), removeElements };
}

function jumpDifference(table: Table, seen: IpvsObserved): JumpDifference {
  const wanted = jumpLines(table);
  const found = seen.jumps[table];
  const chainOf = (line: string): string => line.split(" ")[1] ?? "";
  const wrong = new Set<string>();
  for (const chain of new Set([...wanted, ...found].map(chainOf))) {
    const of = (lines: readonly string[]): string => lines.filter((l) => chainOf(l) === chain).join("");
    if (of(wanted) !== of(found)) wrong.add(chain);
  }
  return {
    remove: found.filter((l) => wrong.has(chainOf(l))),
    insert: wanted.filter((l) => wrong.has(chainOf(l))),
  };
}
