/**
 * The contract of a backend, and its laws. A backend is pure: it has no handlers, locks, timers or counters.
 *
 * Laws (test/laws): diff of equal states has no steps · applying diff(a, b) to a gives b, plus only what is draining or
 * condemned, then `againMs` is set · diff from an observation works on any kernel state · equal inputs give identical
 * text · removing what is absent is no error · `desired` reuses the previous state's rendering of every ServicePlan
 * that is the same object.
 */
import type { Context } from "../model/context.ts";
import type { Plan } from "../model/plan.ts";
import type { Step, StepResult } from "../model/step.ts";

/** How to read something from the kernel: run the steps, hand their results to `parse`. */
export interface Reading<T> {
  readonly steps: readonly Step[];
  /** When the results leave a question: what to read besides. Its value counts then, not that of `parse`. */
  readonly further?: (results: readonly StepResult[]) => Reading<T> | undefined;
  readonly parse: (results: readonly StepResult[]) => T;
}

/** What a diff starts from: the state last applied, or what was just read from the kernel. */
export type From<S, O> =
  | { readonly kind: "state"; readonly state: S }
  | { readonly kind: "observed"; readonly observed: O };

export interface Change<S> {
  /** Ordered; stop at the first failure. */
  readonly steps: readonly Step[];
  /** What the kernel holds once all steps succeeded (the desired state, plus what drains or is condemned). */
  readonly state: S;
  /** Call again with this state and the same desired state after so many milliseconds. */
  readonly againMs?: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** Something of ours that is not as we left it. */
export interface Drift {
  /** `table`, `chain`, `rule`, `jump`, `set`, `element`, `server`, `address`, `sysctl`, … a metric label. */
  readonly kind: string;
  /** One line: what is missing or changed. */
  readonly what: string;
}

export interface Backend<S, O> {
  /** Sysctls, modules, timeouts: the privileged steps of `--init-only`. */
  setup(context: Context): readonly Step[];
  /** Everything the kernel should hold. `previous` only saves work. */
  desired(plan: Plan, context: Context, previous: S | undefined): S;
  /** How to read what the kernel holds of ours. */
  observe(context: Context): Reading<O>;
  /** Smallest ordered steps. `now`: milliseconds since the epoch. */
  diff(from: From<S, O>, to: S, context: Context, now: number): Change<S>;
  /** Reads what decides about draining objects (connection counts) into the state; undefined: nothing drains. */
  refresh?(state: S, context: Context): Reading<S> | undefined;
  /** A cheap look for drift against the state last applied; must not list whole large tables. */
  inspect(state: S, context: Context): Reading<readonly Drift[]>;
  /** Service keys that a failed step's error names (by line), or none when it cannot tell. */
  blame(step: Step, stderr: string): readonly string[];
  /** A cheap look (no module is loaded) whether `cleanup` has anything to remove. Absent: always clean. */
  leftovers?(context: Context): Reading<boolean>;
  /**
   * Remove all that this backend could ever have made in this family. `observed`: what `observe` just read; ipvs needs it
   * to tell its virtual servers from foreign ones.
   */
  cleanup(context: Context, observed?: O): readonly Step[];
}
