/** Removes stale UDP flows after rules changed: off the rule path, as a stream, pending until it succeeded. */
import { type Frontends, frontendsOf, retiredFrontends, udpChanged } from "../conntrack/frontends.ts";
import { describeStale, FlowSorter, judge, type Reason, type Sorted, type StaleClass } from "../conntrack/stale.ts";
import type { Context } from "../model/context.ts";
import { type FamilyName, families } from "../model/family.ts";
import type { Log } from "../model/log.ts";
import type { Plan } from "../model/plan.ts";
import { flowStream, listUdpArgs } from "../tools/conntrack.ts";
import { commandFailure } from "./command-failure.ts";
import { deleteClasses } from "./conntrack-delete.ts";
import { type ExecOptions, execute } from "./exec.ts";
import { debianPackage } from "./tool-path.ts";

export interface CleanUp {
  readonly family: FamilyName;
  /** Entries removed. */
  readonly deleted: number;
  /** Entries of our frontends that stayed. */
  readonly kept: number;
  readonly ms: number;
  /** Stale entries found, by port name and reason. */
  readonly byService: readonly { readonly service: string; readonly reason: Reason; readonly count: number }[];
}

export interface CleanerOptions extends Omit<ExecOptions, "onStdout"> {
  readonly family: FamilyName;
  readonly log: Log;
  /** After each clean-up that succeeded: metrics. */
  readonly onCleanUp?: (result: CleanUp) => void;
  /** First pause after a failure, doubled up to 60 times that; default 1000 ms. */
  readonly retryMs?: number;
  /** Shortest time between two listings of the table; default 1000 ms, more when a listing takes long. */
  readonly gapMs?: number;
}

interface Applied {
  readonly plan: Plan;
  readonly context: Context;
}

/** One per family. `after` is told of every plan that the kernel was made to hold, and returns at once. */
export class ConntrackCleaner {
  readonly #options: CleanerOptions;
  #applied: Applied | undefined;
  /** Made when needed from `#applied`. */
  #frontends: Frontends | undefined;
  readonly #retired = new Map<string, string>();
  #wanted = false;
  #running: Promise<void> | undefined;
  #timer: Timer | undefined;
  #failures = 0;
  #notBefore = 0;
  #toldMissing = false;
  #closed = false;

  constructor(options: CleanerOptions) {
    this.#options = options;
  }

  /**
   * The rules of this plan are in. Pass the whole plan, also when some Services are quarantined: their flows must
   * not count as a deleted Service's. `force`: look even when no UDP Service changed (at every full sync; the first
   * call always looks, with nothing to compare with: flows to current endpoints survive a restart).
   */
  after(plan: Plan, context: Context, force = false): void {
    const previous = this.#applied;
    this.#applied = { plan, context };
    const changed = previous === undefined || previous.context !== context || udpChanged(previous.plan, plan);
    if (changed) this.#frontends = undefined;
    if (previous !== undefined && changed) this.#retire(previous.plan, plan);
    if (!changed && !force) return;
    this.#wanted = true;
    this.#schedule(Math.max(0, this.#notBefore - performance.now()));
  }

  /** Resolves when nothing is pending any more (a clean-up that keeps failing stays pending). */
  async idle(): Promise<void> {
    while (this.#wanted || this.#running !== undefined) {
      await (this.#running ?? new Promise((resolve) => setTimeout(resolve, 10)));
    }
  }

  close(): void {
    this.#closed = true;
    this.#wanted = false;
    clearTimeout(this.#timer);
  }

  // --- internal ---

  #current(): Frontends {
    if (this.#applied === undefined) throw new Error("no plan was applied yet");
    this.#frontends ??= frontendsOf(this.#applied.plan, this.#applied.context);
    return this.#frontends;
  }

  #retire(previous: Plan, next: Plan): void {
    for (const [key, name] of retiredFrontends(previous, next, this.#current())) this.#retired.set(key, name);
  }

  #schedule(ms: number): void {
    if (this.#closed || this.#running !== undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#running = this.#round().finally(() => {
        this.#running = undefined;
        if (this.#wanted) this.#schedule(Math.max(0, this.#notBefore - performance.now()));
      });
    }, ms);
  }

  async #round(): Promise<void> {
    this.#wanted = false;
    const started = performance.now();
    const retired = new Map(this.#retired);
    try {
      if (this.#current().owners.size > 0 || retired.size > 0) await this.#cleanUp(retired, started);
      for (const [key, name] of retired) if (this.#retired.get(key) === name) this.#retired.delete(key);
      this.#failures = 0;
      const gap = Math.max(this.#options.gapMs ?? 1000, 2 * (performance.now() - started));
      this.#notBefore = performance.now() + gap;
    } catch (error) {
      this.#failed(error);
    }
  }

  async #cleanUp(retired: ReadonlyMap<string, string>, started: number): Promise<void> {
    const { family, log, onCleanUp } = this.#options;
    const sorted = await this.#list(new FlowSorter(this.#current(), retired));
    if (sorted === undefined) return;
    // The plan may move on while we delete: what is healthy again by then stays.
    const stillStale = ({ flow, whole }: StaleClass) => {
      const verdict = judge(flow, this.#current(), this.#retired);
      return !this.#closed && verdict.kind === "stale" && (verdict.whole || !whole);
    };
    const deleted = await deleteClasses(sorted.stale, family, stillStale, this.#options);
    const ms = Math.round(performance.now() - started);
    const byService = sorted.stale.map(({ service, reason, count }) => ({ service, reason, count }));
    onCleanUp?.({ family, deleted, kept: sorted.healthy, ms, byService });
    if (deleted === 0) return;
    const fields = { family, removed: deleted, kept: sorted.healthy, ms };
    log.info(`Removed stale UDP flows from conntrack: ${describeStale(sorted.stale)}`, fields);
  }

  /** Undefined when there is no conntrack tool. */
  async #list(sorter: FlowSorter): Promise<Sorted | undefined> {
    const { family, log } = this.#options;
    const decoder = new TextDecoder();
    const stream = flowStream((flow) => sorter.add(flow));
    const command = { tool: "conntrack", args: listUdpArgs(families[family]), timeoutMs: 120_000, about: "UDP flows" };
    const onStdout = (chunk: Uint8Array) => stream.push(decoder.decode(chunk, { stream: true }));
    const outcome = await execute(command, { ...this.#options, onStdout });
    stream.end();
    if (outcome.trouble === "missing") {
      const fields = { family, fix: `install the package "${debianPackage("conntrack")}"` };
      if (!this.#toldMissing) log.warn("No conntrack tool: stale UDP flows will not be removed", fields);
      this.#toldMissing = true;
      return undefined;
    }
    if (outcome.trouble !== undefined || outcome.exitCode !== 0) throw commandFailure(command, outcome);
    return sorter.result();
  }

  /** What was wanted stays wanted; said once, then only at level 2 until it worked. */
  #failed(error: unknown): void {
    if (this.#closed) return;
    const first = this.#options.retryMs ?? 1000;
    const pause = Math.min(first * 2 ** this.#failures, first * 60);
    const fields = {
      family: this.#options.family,
      reason: error instanceof Error ? error.message : String(error),
      retryMs: pause,
    };
    if (this.#failures === 0) this.#options.log.warn("Stale UDP flows could not be removed, trying again", fields);
    else this.#options.log.debug(2, "Stale UDP flows could not be removed, trying again", fields);
    this.#failures++;
    this.#wanted = true;
    this.#notBefore = performance.now() + pause;
  }
}
