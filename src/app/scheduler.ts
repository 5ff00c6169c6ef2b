/** Decides when to sync: at once when idle, `minSyncPeriod` apart under load, soon again after a failure. */

export interface Outcome {
  readonly ok: boolean;
  /** Sync again after so many milliseconds even without a change (draining, condemned objects). */
  readonly againMs?: number;
}

export interface SchedulerOptions {
  /** Milliseconds between the starts of two syncs. */
  readonly minSyncPeriod: number;
  /** Longest pause between retries after failures, in milliseconds. */
  readonly maxRetry: number;
  readonly now: () => number;
}

const firstRetry = 1_000;

/** One timer, at most one sync at a time; requests that arrive meanwhile become one further sync. */
export class Scheduler {
  readonly #run: () => Promise<Outcome>;
  readonly #options: SchedulerOptions;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #due = Number.POSITIVE_INFINITY;
  #running: Promise<void> | undefined;
  #lastStart = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #stopped = false;

  constructor(run: () => Promise<Outcome>, options: SchedulerOptions) {
    this.#run = run;
    this.#options = options;
  }

  /** Ask for a sync in `delay` milliseconds or earlier. */
  request(delay = 0): void {
    const due = this.#options.now() + delay;
    if (due >= this.#due) return;
    this.#due = due;
    this.#arm();
  }

  /** Resolves when a sync that is under way has ended; no further one starts. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  // --- internal ---

  #arm(): void {
    if (this.#stopped || this.#running !== undefined || this.#due === Number.POSITIVE_INFINITY) return;
    clearTimeout(this.#timer);
    const at = Math.max(this.#due, this.#lastStart + this.#options.minSyncPeriod);
    // Timers longer than 2^31-1 ms would fire at once.
    const wait = Math.min(Math.max(0, at - this.#options.now()), 2_000_000_000);
    this.#timer = setTimeout(() => {
      this.#running = this.#sync().finally(() => {
        this.#running = undefined;
        this.#arm();
      });
    }, wait);
  }

  async #sync(): Promise<void> {
    this.#due = Number.POSITIVE_INFINITY;
    this.#lastStart = this.#options.now();
    const outcome = await this.#run();
    this.#failures = outcome.ok ? 0 : this.#failures + 1;
    if (!outcome.ok) this.request(Math.min(firstRetry * 2 ** (this.#failures - 1), this.#options.maxRetry));
    if (outcome.againMs !== undefined) this.request(outcome.againMs);
  }
}
