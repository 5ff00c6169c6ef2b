/** The smallest `ipvsadm` changes from the virtual servers that are to those that should be; TCP servers drain first. */
import type { Protocol } from "../../model/service.ts";
import { printServerLine, type ServerId, type ServerOptions } from "../../tools/ipvsadm.ts";
import type { Draining, ObservedReal, ObservedServer, VirtualServer } from "./state.ts";

export interface ServerDiff {
  /** Lines that add or mend; to be done before `removals`, since a batch is not atomic. */
  readonly additions: string[];
  readonly removals: string[];
  /** By `serverKey real`. */
  readonly draining: Map<string, Draining>;
}

export interface Drain {
  readonly now: number;
  /** What drained before, by `serverKey real`. */
  readonly before: ReadonlyMap<string, Draining>;
}

/**
 * Both maps by `serverKey`; servers in neither are not touched. `keep`: servers that may get additions only, because
 * they are somebody else's (`excludeCIDRs`).
 */
export function diffServers(
  old: ReadonlyMap<string, ObservedServer>,
  next: ReadonlyMap<string, VirtualServer>,
  drain: Drain,
  keep: (id: ServerId) => boolean,
): ServerDiff {
  const diff: ServerDiff = { additions: [], removals: [], draining: new Map() };
  for (const [key, server] of next) {
    const before = old.get(key);
    const foreign = before !== undefined && keep(server.id);
    if (before === undefined) diff.additions.push(serverLine("-A", server));
    else if (!foreign && !sameOptions(before.options, server.options)) diff.additions.push(serverLine("-E", server));
    diffReals(diff, key, before?.reals ?? new Map(), server, drain, foreign);
  }
  for (const [key, { id }] of old) {
    if (!next.has(key) && !keep(id)) diff.removals.push(printServerLine({ kind: "-D", server: id }));
  }
  return diff;
}

// --- internal ---

function serverLine(kind: "-A" | "-E", { id, options }: VirtualServer): string {
  return printServerLine({ kind, server: id, options });
}

function sameOptions(a: ServerOptions, b: ServerOptions): boolean {
  return (
    a.scheduler === b.scheduler &&
    a.persistence === b.persistence &&
    a.netmask === b.netmask &&
    a.schedulerFlags.join() === b.schedulerFlags.join()
  );
}

function diffReals(
  diff: ServerDiff,
  key: string,
  old: ReadonlyMap<string, ObservedReal>,
  server: VirtualServer,
  drain: Drain,
  foreign: boolean,
): void {
  const { id, reals } = server;
  for (const [real, weight] of reals) {
    const before = old.get(real);
    if (before?.weight === weight && before.forward === "-m") continue;
    if (before !== undefined && foreign) continue;
    const kind = before === undefined ? "-a" : "-e";
    diff.additions.push(printServerLine({ kind, server: id, real, forward: "-m", weight }));
  }
  if (foreign) return;
  for (const [real, before] of old) if (!reals.has(real)) removeReal(diff, `${key} ${real}`, id, real, before, drain);
}

/** Connection-oriented and worth finishing; the others are cut at once, so that flows move to a live server. */
function drains(protocol: Protocol): boolean {
  return protocol === "tcp";
}

function removeReal(
  diff: ServerDiff,
  key: string,
  server: ServerId,
  real: string,
  before: ObservedReal,
  drain: Drain,
): void {
  const known = drain.before.get(key);
  const done = before.weight === 0 && known?.connections === 0;
  if (!drains(server.protocol) || done) {
    diff.removals.push(printServerLine({ kind: "-d", server, real }));
    return;
  }
  if (before.weight !== 0) {
    diff.removals.push(printServerLine({ kind: "-e", server, real, forward: "-m", weight: 0 }));
  }
  diff.draining.set(key, known ?? { id: server, real, since: drain.now, connections: undefined, missed: 0 });
}
