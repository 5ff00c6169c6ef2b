/** The heart: changes ask for syncs, each sync runs every family, and what follows from it never delays the next rules. */
import type { Drift } from "../backends/backend.ts";
import type { Context } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { Log } from "../model/log.ts";
import type { Plan } from "../model/plan.ts";
import type { SyncReport } from "../model/report.ts";
import type { Snapshot } from "../model/snapshot.ts";
import type { Reconciler, Synced } from "./reconciler.ts";
import { Repairs } from "./repairs.ts";
import { type Outcome, Scheduler } from "./scheduler.ts";

/** A reconciler of whatever backend. */
export type FamilyLoop = Pick<Reconciler<unknown, unknown>, "sync" | "inspect" | "forget" | "context" | "plan">;

/** Changes and trigger times since the last successful sync of one family. */
export interface ChangeTally {
  take(): { readonly services: number; readonly endpoints: number; readonly triggers: readonly number[] };
  putBack(changes: ReturnType<ChangeTally["take"]>): void;
}

/** What others did to our rules, at the moment when it is repaired. */
export interface DriftFound {
  readonly drift: readonly Drift[];
  /** `process 7149 (nft)`; empty: unknown. */
  readonly by: string;
  /** How often in a row the same was repaired before. */
  readonly returns: number;
  /** A further repair waits so many milliseconds. */
  readonly nextMs: number;
}

export interface LoopOptions {
  readonly families: readonly { readonly loop: FamilyLoop; readonly tally: ChangeTally }[];
  readonly snapshot: () => Snapshot;
  readonly log: Log;
  /** Milliseconds. */
  readonly minSyncPeriod: number;
  readonly syncPeriod: number;
  readonly now: () => number;
  /** Events tell of changes by others right now. */
  readonly watched: () => boolean;
  readonly onQueued: (family: FamilyName, now: number) => void;
  /** After each family's sync; `applied` is set when it succeeded. Must return at once. */
  readonly onSynced: (report: SyncReport, plan: Plan | undefined, applied: Plan | undefined, context: Context) => void;
  readonly onDrift: (family: FamilyName, drift: DriftFound) => void;
  /** An error that should not happen, `crashes` in a row of this family. */
  readonly onCrash: (family: FamilyName, error: unknown, crashes: number) => void;
}

/** With events, a look that takes 100 ms is taken every 50 s at most: two thousandths of the time. */
const watchedRest = 500;
/** Without, it may take a twentieth: a table that takes 2 s to read is read every 40 s at most. */
const blindRest = 20;

/** A full reconcile from what the kernel holds, at least so often. */
const fullPeriod = 3_600_000;

/** Call `start` once the first lists are complete. */
export class SyncLoop {
  readonly #options: LoopOptions;
  readonly #scheduler: Scheduler;
  readonly #crashes = new Map<FamilyLoop, number>();
  readonly #repairs = new Map<FamilyName, Repairs>();
  #inspection: ReturnType<typeof setInterval> | undefined;
  #lastFull: number;
  #looking = false;
  #lookedAt = 0;
  /** Milliseconds. */
  #lookTook = 0;
  #busy: Promise<unknown> = Promise.resolve();

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#lastFull = options.now();
    const { minSyncPeriod, syncPeriod, now } = options;
    for (const { loop } of options.families) this.#repairs.set(loop.context.family.name, this.#repairsOf(loop));
    this.#scheduler = new Scheduler(() => this.#exclusive(() => this.#syncAll()), {
      minSyncPeriod,
      maxRetry: syncPeriod,
      now,
    });
  }

  start(): void {
    this.request();
    this.#inspection = setInterval(() => this.#regularLook(), this.#options.syncPeriod);
  }

  /** Something changed. */
  request(): void {
    for (const { loop } of this.#options.families)
      this.#options.onQueued(loop.context.family.name, this.#options.now());
    this.#scheduler.request();
  }

  /** The kernel is not as we left it: read it and repair, at once unless that happens all the time. */
  repair(family: FamilyName, drift: readonly Drift[], by: string): void {
    this.#repairs.get(family)?.found(drift, by);
  }

  /** Look for drift now, behind a sync that is under way. `by`: who is thought to have made it; empty: unknown. */
  async inspect(by = ""): Promise<boolean> {
    return await this.#exclusive(() => this.#inspectAll(by));
  }

  /** Waits for a sync that is under way. Rules stay. */
  async stop(): Promise<void> {
    clearInterval(this.#inspection);
    for (const repairs of this.#repairs.values()) repairs.close();
    await this.#scheduler.stop();
    await this.#busy;
  }

  // --- internal ---

  #repairsOf(loop: FamilyLoop): Repairs {
    return new Repairs({
      now: this.#options.now,
      repair: (drift, by, returns, nextMs) => {
        loop.forget();
        this.#options.onDrift(loop.context.family.name, { drift, by, returns, nextMs });
        this.request();
      },
    });
  }

  /** Where events tell of changes a look is a safety net, and may take only a small part of the time. */
  #regularLook(): void {
    const { watched, now } = this.#options;
    const rest = this.#lookTook * (watched() ? watchedRest : blindRest);
    if (this.#looking || now() - this.#lookedAt < rest) return;
    this.#looking = true;
    void this.inspect().finally(() => {
      this.#looking = false;
    });
  }

  /** Syncs and inspections take turns: each would see the other's half-done work. */
  #exclusive<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#busy.then(work);
    this.#busy = next.catch(() => {});
    return next;
  }

  async #syncAll(): Promise<Outcome> {
    const { families, now } = this.#options;
    if (now() - this.#lastFull >= fullPeriod) {
      this.#lastFull = now();
      for (const { loop } of families) loop.forget();
    }
    let ok = true;
    let againMs: number | undefined;
    for (const family of families) {
      const synced = await this.#syncOne(family);
      ok &&= synced?.report.ok === true;
      if (synced?.againMs !== undefined) againMs = Math.min(againMs ?? synced.againMs, synced.againMs);
    }
    return againMs === undefined ? { ok } : { ok, againMs };
  }

  async #syncOne({ loop, tally }: LoopOptions["families"][number]): Promise<Synced | undefined> {
    const changes = tally.take();
    try {
      const synced = await loop.sync(this.#options.snapshot(), changes.triggers);
      if (!synced.report.ok) tally.putBack(changes);
      this.#options.onSynced(synced.report, loop.plan, synced.applied, loop.context);
      this.#crashes.delete(loop);
      return synced;
    } catch (error) {
      tally.putBack(changes);
      const crashes = (this.#crashes.get(loop) ?? 0) + 1;
      this.#crashes.set(loop, crashes);
      // Start over from what the kernel holds.
      loop.forget();
      this.#options.onCrash(loop.context.family.name, error, crashes);
      return undefined;
    }
  }

  /** True when something was found. */
  async #inspectAll(by: string): Promise<boolean> {
    let found = false;
    const began = this.#options.now();
    for (const { loop } of this.#options.families) {
      try {
        const drift = await loop.inspect();
        if (drift.length === 0) continue;
        found = true;
        this.repair(loop.context.family.name, drift, by);
      } catch (error) {
        // A look that fails tells nothing: the next sync reads the kernel and reports what is wrong.
        this.#options.log.warn("Looking for drift failed", {
          ipFamily: loop.context.family.name,
          reason: String(error),
        });
        loop.forget();
        this.request();
      }
    }
    this.#lookedAt = this.#options.now();
    this.#lookTook = this.#lookedAt - began;
    // Also without changes: a full reconcile is due at some time.
    if (this.#options.now() - this.#lastFull >= fullPeriod) this.request();
    return found;
  }
}
