/** How often drift of one family is repaired: at once, at most each second, ever slower when the same drift keeps coming back. */
import type { Drift } from "../backends/backend.ts";

export interface RepairOptions {
  readonly now: () => number;
  /**
   * Repair now. `returns`: how often in a row this drift was repaired before, above 0 somebody works against us;
   * `nextMs`: milliseconds for which a further repair will wait.
   */
  readonly repair: (drift: readonly Drift[], by: string, returns: number, nextMs: number) => void;
}

const shortest = 1_000;
const longest = 30_000;
/** Repairs of the same drift before it counts as a fight. */
export const patience = 5;
/** After so long without it, drift is new again. */
const forgotten = 60_000;
/** Findings kept while a repair waits. */
const kept = 50;

/** Drift goes in, repairs come out, rate limited. */
export class Repairs {
  readonly #options: RepairOptions;
  #waiting = new Map<string, Drift>();
  #by = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #last = Number.NEGATIVE_INFINITY;
  #lastKeys: ReadonlySet<string> = new Set();
  #returns = 0;

  constructor(options: RepairOptions) {
    this.#options = options;
  }

  found(drift: readonly Drift[], by: string): void {
    for (const one of drift) if (this.#waiting.size < kept) this.#waiting.set(keyOf(one), one);
    if (by !== "") this.#by = by;
    if (this.#timer !== undefined || this.#waiting.size === 0) return;
    const wait = this.#last + this.#pause() - this.#options.now();
    if (wait <= 0) this.#repair();
    else this.#timer = setTimeout(() => this.#repair(), wait);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#waiting.clear();
  }

  // --- internal ---

  #pause(): number {
    if (this.#returns < patience) return shortest;
    return Math.min(shortest * 2 ** (this.#returns - patience + 1), longest);
  }

  #repair(): void {
    this.#timer = undefined;
    const now = this.#options.now();
    const keys = new Set(this.#waiting.keys());
    const again = now - this.#last < forgotten && [...keys].some((key) => this.#lastKeys.has(key));
    this.#returns = again ? this.#returns + 1 : 0;
    this.#lastKeys = keys;
    this.#last = now;
    const drift = [...this.#waiting.values()];
    const by = this.#by;
    this.#waiting = new Map();
    this.#by = "";
    this.#options.repair(drift, by, this.#returns, this.#pause());
  }
}

/** Handles and counters differ each time. */
function keyOf({ kind, what }: Drift): string {
  return `${kind} ${what.replace(/\d+/g, "#")}`;
}
