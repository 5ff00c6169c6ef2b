/** Services whose rules the kernel refuses: kept out (or at their last good version) so that all others are programmed. */
import type { Plan, ServicePlan } from "../model/plan.ts";
import type { Quarantine } from "../model/report.ts";

interface Entry extends Quarantine {
  /** The version that failed; a newer one is tried at once. */
  readonly failed: ServicePlan;
  /** The version that the kernel took before, if any. */
  readonly lastGood: ServicePlan | undefined;
  readonly failures: number;
  readonly nextTry: number;
}

const firstTry = 5_000;
const longestTry = 600_000;

/** What is quarantined in one family. Times are milliseconds since the epoch. */
export class QuarantineList {
  readonly #entries = new Map<string, Entry>();

  /** Services to leave at their last good version now; the rest of the quarantined ones are up for another try. */
  held(plan: Plan, now: number): ReadonlySet<string> {
    const held = new Set<string>();
    for (const [key, entry] of this.#entries) {
      const current = plan.services.get(key);
      if (current === undefined) this.#entries.delete(key);
      else if (current === entry.failed && now < entry.nextTry) held.add(key);
    }
    return held;
  }

  /** The plan with the held Services at their last good version, or without them. */
  apply(plan: Plan, held: ReadonlySet<string>): Plan {
    if (held.size === 0) return plan;
    const services = new Map(plan.services);
    for (const key of held) {
      const good = this.#entries.get(key)?.lastGood;
      if (good === undefined) services.delete(key);
      else services.set(key, good);
    }
    return { ...plan, services };
  }

  add(service: ServicePlan, lastGood: ServicePlan | undefined, reason: string, now: number): void {
    const old = this.#entries.get(service.key);
    const failures = (old?.failures ?? 0) + 1;
    this.#entries.set(service.key, {
      service: service.key,
      reason,
      since: old?.since ?? now,
      failed: service,
      // A last good version that fails too is dropped.
      lastGood: lastGood === service ? undefined : (lastGood ?? old?.lastGood),
      failures,
      nextTry: now + Math.min(firstTry * 2 ** (failures - 1), longestTry),
    });
  }

  /** Everything outside `held` was programmed: it is free again. */
  release(held: ReadonlySet<string>): readonly string[] {
    const freed = [...this.#entries.keys()].filter((key) => !held.has(key));
    for (const key of freed) this.#entries.delete(key);
    return freed;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  list(): readonly Quarantine[] {
    return [...this.#entries.values()].map(({ service, reason, since }) => ({ service, reason, since }));
  }

  /** Milliseconds until the next one is tried again; undefined when none waits. */
  nextTryIn(now: number): number | undefined {
    const times = [...this.#entries.values()].map((e) => e.nextTry - now);
    return times.length === 0 ? undefined : Math.max(0, Math.min(...times));
  }
}
