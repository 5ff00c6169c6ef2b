/** The nftables backend: table `kube-proxy` in `ip` and `ip6`, in kube-proxy's layout, or in a compact one (feature gate). */
import type { Context } from "../../model/context.ts";
import type { Plan } from "../../model/plan.ts";
import { printTableRemoval, TABLE } from "../../tools/nft.ts";
import type { Backend } from "../backend.ts";
import { allServices } from "./all-services.ts";
import { baseObjects } from "./base.ts";
import { blameServices } from "./blame.ts";
import { compactSets, sharedChains } from "./compact-base.ts";
import { diffStates } from "./diff.ts";
import { inspectTable } from "./inspect.ts";
import { type NftObserved, observeTable, repair } from "./repair.ts";
import { serviceSettings } from "./service.ts";
import type { NftState, Objects } from "./state.ts";

export type { NftObserved } from "./repair.ts";
export type { NftState } from "./state.ts";

export const nftables: Backend<NftState, NftObserved> = {
  // Nothing: node ports stay off loopback, and forwarding belongs to whoever sets up the node.
  setup: () => [],
  desired,
  observe: observeTable,
  diff: (from, to, context, now) =>
    from.kind === "state" ? diffStates(from.state, to, context, now) : repair(from.observed, to, context, now),
  inspect: inspectTable,
  blame: blameServices,
  cleanup: ({ family }) => [
    {
      kind: "exec",
      tool: "nft",
      args: ["-f", "-"],
      input: printTableRemoval(family),
      about: `removal of table ${family.nft} ${TABLE}`,
    },
  ],
};

function desired(plan: Plan, context: Context, previous: NftState | undefined): NftState {
  const settings = serviceSettings(context);
  const old = previous?.settings === settings ? previous : undefined;
  const { services, users } = allServices(plan, context, old);
  const base = baseObjects(context, plan.serviceCIDRs);
  return {
    base: sameOrNew(old?.base, context.gates.nftablesCompact ? withShared(base, users, context) : base),
    services,
    users,
    settings,
    condemned: new Map(),
  };
}

/** The fixed objects and what the Services share. */
function withShared(base: Objects, users: NftState["users"], context: Context): Objects {
  return {
    chains: [...base.chains, ...sharedChains(users.keys(), context)],
    sets: [...base.sets, ...compactSets(context.family)],
    elements: base.elements,
  };
}

/** The fixed objects are few: comparing their text is cheap, and an equal one keeps its identity. */
function sameOrNew(old: Objects | undefined, made: Objects): Objects {
  return old !== undefined && JSON.stringify(old) === JSON.stringify(made) ? old : made;
}
