/** The kernel objects behind each step, by mode; names come from the backends' own naming functions. */
import type { Context, ProxyMode } from "../model/context.ts";
import type { Endpoint } from "../model/plan.ts";
import type { Knocked } from "./frontend.ts";
import { iptablesNaming } from "./naming-iptables.ts";
import { ipvsNaming } from "./naming-ipvs.ts";
import { nftablesNaming } from "./naming-nftables.ts";
import type { KernelObject } from "./verdict.ts";

type Objects = readonly KernelObject[];

export interface Naming {
  /** What sends the frontend's packets on. `guarded`: past the check of source ranges. */
  match(at: Knocked, guarded: boolean): Objects;
  /** The check of source ranges; `denied`: what drops. */
  ranges(at: Knocked, denied: boolean): Objects;
  /** Where traffic from outside is told apart. */
  external(at: Knocked): Objects;
  masquerade(at: Knocked): Objects;
  /** The choice among the endpoints of one list. */
  balance(at: Knocked, local: boolean): Objects;
  endpoint(at: Knocked, endpoint: Endpoint): Objects;
  affinity(at: Knocked, endpoint: Endpoint): Objects;
  hairpin(at: Knocked, endpoint: Endpoint): Objects;
  /** What rejects or drops for want of endpoints. */
  refuse(at: Knocked): Objects;
}

export function namingOf(context: Context): Naming {
  const makers: Readonly<Record<ProxyMode, (context: Context) => Naming>> = {
    iptables: iptablesNaming,
    ipvs: ipvsNaming,
    nftables: nftablesNaming,
  };
  return makers[context.mode](context);
}
