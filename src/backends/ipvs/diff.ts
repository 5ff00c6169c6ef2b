/** From what the kernel holds to what it should hold: the steps, and what is left to drain. */
import type { Context } from "../../model/context.ts";
import type { Change, From } from "../backend.ts";
import { type Difference, fromObserved, fromState } from "./difference.ts";
import type { tables } from "./names.ts";
import { countRules } from "./rules.ts";
import { sysctls } from "./setup.ts";
import type { Draining, IpvsObserved, IpvsState } from "./state.ts";
import { stepsOf } from "./steps.ts";

/** Milliseconds between two looks at draining servers: soon at first, then at a quarter of the time they drain already. */
const drainLook = { first: 1000, longest: 30_000 };

/**
 * `Backend.diff` of ipvs mode. TCP servers that go are set to weight 0 and stay in `state.draining` until they have no
 * connection (kubernetes#57841), others go at once; while any drains, `againMs` is set. `now`: milliseconds since the epoch.
 */
export function diff(
  from: From<IpvsState, IpvsObserved>,
  to: IpvsState,
  context: Context,
  now: number,
): Change<IpvsState> {
  const difference = from.kind === "state" ? fromState(from.state, to, now) : fromObserved(from.observed, to, now);
  const { draining } = difference.servers;
  const change = {
    // What drifted is written again when all is compared; equal values are left alone.
    steps: [...(from.kind === "observed" ? sysctls(context) : []), ...stepsOf(difference, to)],
    state: { ...to, draining },
    counts: countsOf(difference, to),
  };
  return draining.size === 0 ? change : { ...change, againMs: nextLook(draining, now) };
}

// --- internal ---

function nextLook(draining: ReadonlyMap<string, Draining>, now: number): number {
  let least: number = drainLook.longest;
  for (const { since } of draining.values()) least = Math.min(least, Math.max(drainLook.first, (now - since) / 4));
  return Math.round(least);
}

/** `filter` and `nat`: iptables rules held, `…_last`: written by this change; `servers`: virtual ones; `draining`: real ones. */
function countsOf(difference: Difference, to: IpvsState): Readonly<Record<string, number>> {
  const rules = countRules(to.chains);
  const written = countRules({ filter: writtenOf("filter", difference, to), nat: writtenOf("nat", difference, to) });
  let servers = 0;
  for (const rendered of to.services.values()) servers += rendered.servers.size;
  return {
    ...rules,
    filter_last: written.filter,
    nat_last: written.nat,
    servers,
    draining: difference.servers.draining.size,
  };
}

function writtenOf(table: (typeof tables)[number], difference: Difference, to: IpvsState): ReadonlyMap<string, string> {
  return new Map(difference.chains[table].map((name) => [name, to.chains[table].get(name) ?? ""]));
}
