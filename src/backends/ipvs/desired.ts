/** From the plan to everything that the kernel should hold. */
import type { Context } from "../../model/context.ts";
import type { Plan } from "../../model/plan.ts";
import type { SetKey } from "./names.ts";
import { renderChains } from "./rules.ts";
import { renderService } from "./service.ts";
import type { IpvsState, OutFilter, Rendered } from "./state.ts";

/** Renderings of ServicePlans that are the same objects as in `previous` are kept. */
export function desired(plan: Plan, context: Context, previous: IpvsState | undefined): IpvsState {
  const known = previous?.context === context ? previous.services : undefined;
  const services = new Map<string, Rendered>();
  const used = new Set<SetKey>();
  const outFilters: OutFilter[] = [];
  for (const [key, servicePlan] of plan.services) {
    const old = known?.get(key);
    const rendered = old?.plan === servicePlan ? old : renderService(servicePlan, context);
    services.set(key, rendered);
    for (const set of rendered.sets) used.add(set);
    for (const filter of rendered.outFilters) outFilters.push(filter);
  }
  return { context, services, chains: renderChains(used, outFilters, context), draining: new Map() };
}
