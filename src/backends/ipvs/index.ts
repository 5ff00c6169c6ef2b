/** ipvs mode: virtual servers for every address and port of a Service, sets and a fixed set of chains around them. */
import type { Backend } from "../backend.ts";
import { cleanup } from "./cleanup.ts";
import { desired } from "./desired.ts";
import { diff } from "./diff.ts";
import { inspect } from "./inspect.ts";
import { leftovers, observe, refresh } from "./observe.ts";
import { setup } from "./setup.ts";
import type { IpvsObserved, IpvsState } from "./state.ts";

export { probe } from "./probe.ts";
export type { IpvsObserved, IpvsState } from "./state.ts";

export const ipvs: Backend<IpvsState, IpvsObserved> = {
  setup,
  desired,
  observe,
  diff,
  refresh,
  inspect,
  // No error of ipset, ipvsadm or ip says whose line it was: the reconciler finds the culprit by halving.
  blame: () => [],
  leftovers,
  cleanup,
};
