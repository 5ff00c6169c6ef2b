/** What the kernel should hold in iptables mode, as data: fixed rules and one rendered text a Service. */
import type { Context } from "../../model/context.ts";
import type { Plan } from "../../model/plan.ts";
import { type Fixed, fixedRules } from "./fixed.ts";
import { dispatchChains } from "./names.ts";
import { renderService } from "./service.ts";
import type { RenderedService } from "./service-text.ts";

export interface IptablesState {
  /** Everything of the context that shows in rules, as text: equal texts, equal rules. */
  readonly basis: string;
  readonly fixed: Fixed;
  readonly services: ReadonlyMap<string, RenderedService>;
  /** Rules by position in `dispatchChains`, tails not counted. */
  readonly dispatchRules: readonly number[];
  /** Rules in the Services' own chains. */
  readonly serviceRules: number;
}

/** Above so many endpoints rules carry no comments, as kube-proxy does: the text would be half of all memory. */
const largeCluster = 1000;

/** The state for a plan; Services whose plan is the same object keep their text. */
export function desired(plan: Plan, context: Context, previous: IptablesState | undefined): IptablesState {
  const comments = plan.endpointCount <= largeCluster;
  const basis = basisOf(context, comments);
  const known = previous?.basis === basis ? previous : undefined;
  const services = new Map<string, RenderedService>();
  const dispatchRules = dispatchChains.map(() => 0);
  let serviceRules = 0;
  for (const [key, service] of plan.services) {
    const old = known?.services.get(key);
    const rendered = old?.plan === service ? old : renderService(service, context, comments);
    services.set(key, rendered);
    serviceRules += rendered.rules;
    for (let i = 0; i < dispatchRules.length; i++) {
      dispatchRules[i] = (dispatchRules[i] ?? 0) + (rendered.dispatchRules[i] ?? 0);
    }
  }
  return { basis, fixed: known?.fixed ?? fixedRules(context), services, dispatchRules, serviceRules };
}

// --- internal ---

function basisOf(context: Context, comments: boolean): string {
  const { family, nodeIP, detectLocal, nodePorts, masqueradeAll, masqueradeMark, localhostNodePorts, facts } = context;
  const { randomFully, nfacct, tcpBeLiberal } = facts;
  return JSON.stringify([
    comments,
    [family.name, nodeIP, detectLocal, nodePorts, masqueradeAll, masqueradeMark, localhostNodePorts],
    [randomFully, nfacct, tcpBeLiberal],
  ]);
}
