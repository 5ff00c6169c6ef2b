/** The iptables backend: `KUBE-*` chains as kube-proxy writes them, for iptables-nft and iptables-legacy. */
import type { Context } from "../../model/context.ts";
import type { Backend, Change, From } from "../backend.ts";
import { blame } from "./blame.ts";
import { changeSteps } from "./changes.ts";
import { cleanup, leftovers } from "./cleanup.ts";
import { diffStates } from "./diff.ts";
import { inspect } from "./inspect.ts";
import { dispatchChains, type Table } from "./names.ts";
import { diffObserved, type IptablesObserved, observe } from "./observation.ts";
import { setup, sysctls } from "./setup.ts";
import { desired, type IptablesState } from "./state.ts";

export type { IptablesObserved, IptablesState };

export const iptables: Backend<IptablesState, IptablesObserved> = {
  setup,
  desired,
  observe,
  diff,
  inspect,
  blame,
  leftovers,
  cleanup,
};

// --- internal ---

function diff(
  from: From<IptablesState, IptablesObserved>,
  to: IptablesState,
  context: Context,
  _now: number,
): Change<IptablesState> {
  const { changes, written } = from.kind === "state" ? diffStates(from.state, to) : diffObserved(from.observed, to);
  return {
    steps: [...changeSteps(changes, context), ...(from.kind === "observed" ? sysctls(context) : [])],
    state: to,
    counts: {
      filter: ruleCount(to, "filter"),
      nat: ruleCount(to, "nat"),
      filter_last: written.filter,
      nat_last: written.nat,
    },
  };
}

function ruleCount(state: IptablesState, table: Table): number {
  let count = table === "nat" ? state.serviceRules : 0;
  dispatchChains.forEach((at, i) => {
    if (at.table === table) count += state.dispatchRules[i] ?? 0;
  });
  const { chains, tails, jumps } = state.fixed[table];
  for (const rules of [...chains.values(), ...tails.values()]) count += rules.split("\n").length - 1;
  return count + jumps.length;
}
