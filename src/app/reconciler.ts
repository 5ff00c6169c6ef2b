/** One family's loop body: snapshot → plan → desired → diff → apply → report; forgets what it knows when a step fails. */
import type { Backend, Change, Drift, From } from "../backends/backend.ts";
import { CommandError } from "../host/command-error.ts";
import type { Context } from "../model/context.ts";
import type { Plan } from "../model/plan.ts";
import { makePlan } from "../model/planner.ts";
import type { StageTimes, SyncReport } from "../model/report.ts";
import type { Snapshot } from "../model/snapshot.ts";
import type { Step, StepResult } from "../model/step.ts";
import { isolate } from "./isolation.ts";
import { QuarantineList } from "./quarantine.ts";
import { readKernel } from "./read.ts";

export interface ReconcilerOptions<S, O> {
  readonly backend: Backend<S, O>;
  readonly context: Context;
  /** Runs steps in order; throws CommandError at the first failure. */
  readonly run: (steps: readonly Step[]) => Promise<readonly StepResult[]>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** A sync's report, plus what the app follows up on. */
export interface Synced {
  readonly report: SyncReport;
  /** What is programmed now; undefined when the sync failed. */
  readonly applied: Plan | undefined;
  readonly againMs: number | undefined;
  /** Services that left quarantine. */
  readonly released: readonly string[];
}

type Attempt = { -readonly [K in keyof StageTimes]: number } & {
  full: boolean;
  counts: Record<string, number>;
  againMs?: number;
};

/** Level-triggered: each sync recomputes from the snapshot, so nothing is lost when one fails. */
export class Reconciler<S, O> {
  readonly #options: ReconcilerOptions<S, O>;
  readonly #quarantine = new QuarantineList();
  #context: Context;
  /** What the kernel is known to hold; undefined: it must be read first. */
  #held: S | undefined;
  /** The last desired state, kept over failures: its renderings can be reused. */
  #rendered: S | undefined;
  #plan: Plan | undefined;
  #applied: Plan | undefined;
  #failures = 0;
  /** Goes up with each `forget`: one that comes in the middle of a sync must outlive it. */
  #epoch = 0;

  constructor(options: ReconcilerOptions<S, O>) {
    this.#options = options;
    this.#context = options.context;
  }

  get context(): Context {
    return this.#context;
  }

  /** The last plan; undefined before the first sync. */
  get plan(): Plan | undefined {
    return this.#plan;
  }

  set context(context: Context) {
    this.#context = context;
  }

  /** The kernel may hold something else than we think: the next sync reads it. */
  forget(): void {
    this.#epoch++;
    this.#held = undefined;
  }

  /**
   * Makes the kernel as the snapshot asks. `triggers`: when the endpoint changes happened that it programs (ms since the
   * epoch). Failures are in the report; only programming errors are thrown.
   */
  async sync(snapshot: Snapshot, triggers: readonly number[] = []): Promise<Synced> {
    const startedAt = this.#options.now();
    const attempt: Attempt = { plan: 0, desired: 0, observe: 0, diff: 0, apply: 0, full: false, counts: {} };
    const plan = timed(attempt, "plan", () => makePlan(snapshot, this.#context, this.#plan));
    this.#plan = plan;
    const held = this.#quarantine.held(plan, startedAt);
    let failure: CommandError | undefined;
    try {
      await this.#attempt(this.#quarantine.apply(plan, held), attempt);
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      failure = await this.#isolate(plan, held, error, attempt);
    }
    return this.#conclude(plan, startedAt, attempt, failure, triggers);
  }

  /** A cheap look for drift; `forget` makes the next sync repair it. */
  async inspect(): Promise<readonly Drift[]> {
    if (this.#held === undefined) return [];
    const reading = this.#options.backend.inspect(this.#held, this.#context);
    const epoch = this.#epoch;
    const drift = await readKernel(reading, this.#options.run);
    // A repair that was ordered meanwhile would be ordered twice.
    return epoch === this.#epoch ? drift : [];
  }

  // --- internal ---

  async #attempt(plan: Plan, attempt: Attempt): Promise<void> {
    const { backend, run, now } = this.#options;
    const epoch = this.#epoch;
    const from = await timedAsync(attempt, "observe", () => this.#from());
    attempt.full ||= from.kind === "observed";
    const desired = timed(attempt, "desired", () => backend.desired(plan, this.#context, this.#rendered));
    this.#rendered = desired;
    const change: Change<S> = timed(attempt, "diff", () => backend.diff(from, desired, this.#context, now()));
    this.#held = undefined;
    try {
      await timedAsync(attempt, "apply", () => run(change.steps));
    } catch (error) {
      if (error instanceof CommandError) throw new FailedChange(error, change.steps[error.step]);
      throw error;
    }
    if (epoch === this.#epoch) this.#held = change.state;
    this.#applied = plan;
    attempt.counts = { ...change.counts };
    if (change.againMs === undefined) delete attempt.againMs;
    else attempt.againMs = change.againMs;
  }

  async #from(): Promise<From<S, O>> {
    const { backend, run } = this.#options;
    if (this.#held === undefined) {
      const reading = backend.observe(this.#context);
      return { kind: "observed", observed: await readKernel(reading, run) };
    }
    const refresh = backend.refresh?.(this.#held, this.#context);
    const state = refresh === undefined ? this.#held : await readKernel(refresh, run);
    return { kind: "state", state };
  }

  /** Finds the Services that the kernel refuses and programs the rest. Undefined: done; else the failure that remains. */
  async #isolate(
    plan: Plan,
    held: ReadonlySet<string>,
    first: CommandError,
    attempt: Attempt,
  ): Promise<CommandError | undefined> {
    let error = first;
    if (!attempt.full && this.#blamed(error).length > 0) {
      // Perhaps what it builds on was taken away by others: nobody is blamed before a try on what the kernel really holds.
      const second = await this.#tryAgain(this.#quarantine.apply(plan, held), attempt);
      if (second === undefined) return undefined;
      error = second;
    }
    const blamed = this.#blamed(error);
    return isolate({
      plan,
      held,
      applied: this.#applied,
      error,
      blamed,
      // One failure may be anybody's; the second in a row is looked into.
      repeated: this.#failures > 0,
      quarantine: this.#quarantine,
      now: this.#options.now,
      attempt: (p) => this.#attempt(p, attempt),
    });
  }

  #blamed(error: CommandError): readonly string[] {
    const step = error instanceof FailedChange ? error.failedStep : undefined;
    return step === undefined ? [] : this.#options.backend.blame(step, error.stderr);
  }

  async #tryAgain(plan: Plan, attempt: Attempt): Promise<CommandError | undefined> {
    try {
      await this.#attempt(plan, attempt);
      return undefined;
    } catch (error) {
      if (error instanceof CommandError) return error;
      throw error;
    }
  }

  #conclude(
    plan: Plan,
    startedAt: number,
    attempt: Attempt,
    failure: CommandError | undefined,
    triggers: readonly number[],
  ): Synced {
    const finishedAt = this.#options.now();
    const ok = failure === undefined;
    this.#failures = ok ? 0 : this.#failures + 1;
    const released = ok ? this.#quarantine.release(this.#quarantine.held(plan, startedAt)) : [];
    const retry = this.#quarantine.nextTryIn(finishedAt);
    const again = [attempt.againMs, retry].filter((ms) => ms !== undefined);
    const { full, counts, againMs: _, ...stages } = attempt;
    const report: SyncReport = {
      family: this.#context.family.name,
      mode: this.#context.mode,
      startedAt,
      finishedAt,
      full,
      ok,
      error: failure?.message,
      stages,
      counts,
      triggers: ok ? triggers : [],
      noLocalEndpoints: plan.noLocalEndpoints,
      quarantined: this.#quarantine.list(),
    };
    return {
      report,
      applied: ok ? this.#applied : undefined,
      againMs: again.length > 0 ? Math.min(...again) : undefined,
      released,
    };
  }
}

/** A CommandError together with the step that failed, for blame. */
class FailedChange extends CommandError {
  readonly failedStep: Step | undefined;
  constructor(error: CommandError, step: Step | undefined) {
    super(error, error.step, error.results, error.cause);
    this.message = error.message;
    this.failedStep = step;
  }
}

function timed<T>(attempt: Attempt, stage: keyof StageTimes, work: () => T): T {
  const start = performance.now();
  const result = work();
  attempt[stage] += performance.now() - start;
  return result;
}

async function timedAsync<T>(attempt: Attempt, stage: keyof StageTimes, work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  try {
    return await work();
  } finally {
    attempt[stage] += performance.now() - start;
  }
}
