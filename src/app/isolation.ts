/** When a change fails because of one Service: find it, leave it out, program all others. */
import type { CommandError } from "../host/command-error.ts";
import type { Plan, ServicePlan } from "../model/plan.ts";
import type { QuarantineList } from "./quarantine.ts";

export interface Failure {
  readonly plan: Plan;
  /** Services already held at their last good version. */
  readonly held: ReadonlySet<string>;
  /** What the kernel took last. */
  readonly applied: Plan | undefined;
  readonly error: CommandError;
  /** Service keys that the tool's message points at. */
  readonly blamed: readonly string[];
  readonly repeated: boolean;
  readonly quarantine: QuarantineList;
  readonly now: () => number;
  /** Programs a plan; throws CommandError. */
  readonly attempt: (plan: Plan) => Promise<void>;
}

/** Tries a round may take: one culprit among 100,000 needs about 35. */
const longest = 80;

/** Undefined when everything but the quarantined Services is programmed; else the failure that remains. */
export async function isolate(failure: Failure): Promise<CommandError | undefined> {
  const { error, repeated, quarantine } = failure;
  // A missing, hanging or killed tool and a held lock are nobody's rules.
  if (error.trouble !== undefined || error.signal !== undefined || error.lockHolders.length > 0) return error;
  const suspects = suspectsOf(failure);
  const named = suspects.filter((s) => failure.blamed.includes(s.key));
  const retried = suspects.filter((s) => quarantine.has(s.key));
  if (named.length > 0) return search(failure, named);
  if (retried.length > 0) return search(failure, retried);
  return repeated && suspects.length > 0 ? search(failure, suspects) : error;
}

// --- internal ---

/** Services that differ from what the kernel took last. */
function suspectsOf({ plan, held, applied }: Failure): readonly ServicePlan[] {
  return [...plan.services.values()].filter((s) => !held.has(s.key) && applied?.services.get(s.key) !== s);
}

/** Program without all suspects, then let them in by halves; one that fails alone is the culprit. */
async function search(failure: Failure, suspects: readonly ServicePlan[]): Promise<CommandError | undefined> {
  const out = new Set([...failure.held, ...suspects.map((s) => s.key)]);
  const first = await tryPlan(failure, out);
  // Not these Services' fault after all.
  if (first !== undefined) return failure.repeated && suspects.length === 1 ? first : failure.error;
  // A lone suspect has failed already; without it all went well.
  if (suspects.length === 1 && suspects[0] !== undefined) return convict(failure, suspects[0], failure.error);
  const groups: (readonly ServicePlan[])[] = halves(suspects);
  for (let tries = 0; groups.length > 0; tries++) {
    const group = groups.pop() ?? [];
    if (tries >= longest) return failure.error;
    for (const s of group) out.delete(s.key);
    const error = await tryPlan(failure, out);
    if (error === undefined) continue;
    for (const s of group) out.add(s.key);
    if (group.length === 1 && group[0] !== undefined) convict(failure, group[0], error);
    else groups.push(...halves(group));
  }
  // The last try may have been a failing one: leave the kernel at the good plan.
  return tryPlan(failure, out);
}

function halves(list: readonly ServicePlan[]): (readonly ServicePlan[])[] {
  const middle = Math.ceil(list.length / 2);
  return [list.slice(0, middle), list.slice(middle)].filter((half) => half.length > 0);
}

function convict(failure: Failure, service: ServicePlan, error: CommandError): undefined {
  failure.quarantine.add(service, failure.applied?.services.get(service.key), error.message, failure.now());
}

/** The plan with some Services as the kernel last took them, or absent. */
async function tryPlan(
  { plan, applied, attempt }: Failure,
  out: ReadonlySet<string>,
): Promise<CommandError | undefined> {
  const services = new Map(plan.services);
  for (const key of out) {
    const good = applied?.services.get(key);
    if (good === undefined) services.delete(key);
    else services.set(key, good);
  }
  try {
    await attempt({ ...plan, services });
    return undefined;
  } catch (error) {
    if (isCommandError(error)) return error;
    throw error;
  }
}

function isCommandError(error: unknown): error is CommandError {
  return error instanceof Error && error.name === "CommandError";
}
