/** When the endpoint changes happened that a sync is about to program, kept until one succeeds. */
import type { Plan } from "../model/plan.ts";

const limit = 10_000;

/** Collects trigger times of changed slices; those before the process started say nothing about us. */
export class TriggerTimes {
  readonly #since: number;
  #pending: number[] = [];

  /** `since`: milliseconds since the epoch. */
  constructor(since: number) {
    this.#since = since;
  }

  collect(plan: Plan, previous: Plan | undefined): void {
    if (previous === undefined) return;
    for (const [key, service] of plan.services) {
      const before = previous.services.get(key);
      if (before === service || before?.input === service.input) continue;
      for (const slice of service.input.slices) {
        const known = before?.input.slices.includes(slice) ?? false;
        if (!known && slice.lastChange > this.#since && this.#pending.length < limit)
          this.#pending.push(slice.lastChange);
      }
    }
  }

  /** What is pending; it is programmed now. */
  take(): readonly number[] {
    const taken = this.#pending;
    this.#pending = [];
    return taken;
  }
}
