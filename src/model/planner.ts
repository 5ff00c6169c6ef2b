/** From a snapshot to a plan: all Services of one family, with the work of the last plan reused by identity. */
import { type Claims, sameFrontends, settleClaims, withoutLost } from "./claims.ts";
import type { Context } from "./context.ts";
import { familyOf } from "./ip.ts";
import type { Plan, PlanMemory, ServicePlan } from "./plan.ts";
import { planService } from "./service-plan.ts";
import type { Snapshot } from "./snapshot.ts";

/**
 * The plan for one family. A Service whose input is the same object as in `previous`, under the same context object,
 * keeps its ServicePlan object; the cost beyond that is one pointer comparison a Service.
 */
export function makePlan(snapshot: Snapshot, context: Context, previous?: Plan): Plan {
  const memory = previous?.memory.context === context ? previous.memory : undefined;
  const { base, frontendsChanged } = planBase(snapshot, context, memory);
  const claims: Claims =
    memory === undefined || previous === undefined || frontendsChanged
      ? settleClaims(plansOf(base))
      : { lost: memory.lost, conflicts: previous.conflicts };
  const services = new Map<string, ServicePlan>();
  let endpointCount = 0;
  const noLocal = { internal: 0, external: 0 };
  for (const plan of plansOf(base)) {
    const settled = settle(plan, claims, memory, previous);
    services.set(plan.key, settled);
    endpointCount += settled.endpointCount;
    countNoLocal(settled, noLocal);
  }
  return {
    services,
    endpointCount,
    noLocalEndpoints: noLocal,
    serviceCIDRs:
      memory?.cidrs === snapshot.serviceCIDRs && previous !== undefined
        ? previous.serviceCIDRs
        : snapshot.serviceCIDRs.filter((c) => familyOf(c) === context.family.name),
    conflicts: claims.conflicts,
    memory: { context, base, lost: claims.lost, cidrs: snapshot.serviceCIDRs },
  };
}

/** The same plan without some Services: what is programmed while they are quarantined. */
export function withoutServices(plan: Plan, keys: ReadonlySet<string>): Plan {
  if (keys.size === 0) return plan;
  const services = new Map([...plan.services].filter(([key]) => !keys.has(key)));
  return { ...plan, services };
}

// --- internal ---

type Base = PlanMemory["base"];

function* plansOf(base: Base): Iterable<ServicePlan> {
  for (const { plan } of base.values()) if (plan !== undefined) yield plan;
}

function planBase(
  snapshot: Snapshot,
  context: Context,
  memory: PlanMemory | undefined,
): { readonly base: Base; readonly frontendsChanged: boolean } {
  const base = new Map<string, { input: ServicePlan["input"]; plan: ServicePlan | undefined }>();
  let frontendsChanged = false;
  for (const key of orderedKeys(snapshot, memory)) {
    const input = snapshot.services.get(key);
    if (input === undefined) continue;
    const old = memory?.base.get(key);
    if (old?.input === input) {
      base.set(key, old);
      continue;
    }
    const plan = planService(input, context);
    base.set(key, { input, plan });
    frontendsChanged ||= !sameFrontends(old?.plan, plan);
  }
  // Removed Services free what they held.
  frontendsChanged ||= memory !== undefined && memory.base.size !== base.size;
  return { base, frontendsChanged };
}

/** Sorted keys; sorting is skipped when no Service is new. */
function orderedKeys(snapshot: Snapshot, memory: PlanMemory | undefined): Iterable<string> {
  if (memory === undefined) return [...snapshot.services.keys()].sort();
  for (const key of snapshot.services.keys()) if (!memory.base.has(key)) return [...snapshot.services.keys()].sort();
  return memory.base.keys();
}

function settle(
  plan: ServicePlan,
  claims: Claims,
  memory: PlanMemory | undefined,
  previous: Plan | undefined,
): ServicePlan {
  const lost = claims.lost.get(plan.key);
  if (lost === undefined) return plan;
  const before = previous?.services.get(plan.key);
  const unchanged = memory?.base.get(plan.key)?.plan === plan && memory.lost.get(plan.key) === lost;
  return unchanged && before !== undefined ? before : withoutLost(plan, lost);
}

function countNoLocal(plan: ServicePlan, count: { internal: number; external: number }): void {
  for (const port of plan.ports) {
    if (port.internal === "drop") count.internal++;
    if (port.exposed && port.external === "drop") count.external++;
  }
}
