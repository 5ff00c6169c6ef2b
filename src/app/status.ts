/** What the running proxy knows about itself: health, last syncs, remarks. Read by the HTTP pages, written by the loop. */
import { afterQueued, afterSync, type FamilyHealth, type HealthFacts, neverSynced } from "../health/state.ts";
import type { ProxyFacts } from "../metrics/status-pages.ts";
import type { Context } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { Plan } from "../model/plan.ts";
import type { SyncReport } from "../model/report.ts";
import { History } from "./status-page-history.ts";

export interface FamilyStatus {
  readonly health: FamilyHealth;
  readonly report: SyncReport | undefined;
  readonly plan: Plan | undefined;
  /** What `plan` was made under. */
  readonly context: Context | undefined;
}

/** A change of others to our rules that was put right. */
export interface Repair {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly family: FamilyName;
  readonly what: string;
  /** `process 7149 (nft)`; empty: unknown. */
  readonly by: string;
}

const keptRepairs = 10;

export class ProxyStatus {
  readonly startedAt: number;
  readonly nodeName: string;
  readonly #syncPeriodMs: number;
  readonly #families = new Map<FamilyName, FamilyStatus>();
  /** One line each; shown in /healthz and /statusz. */
  readonly warnings = new Set<string>();
  nodeLeaving = false;
  /** Undefined: not looked for yet. */
  nodeKnown: boolean | undefined;
  driftRepairs = 0;
  /** The last few, oldest first. */
  repairs: readonly Repair[] = [];
  pending = { services: 0, endpoints: 0 };
  readonly history = new History();

  constructor(nodeName: string, families: readonly FamilyName[], syncPeriodMs: number, now: number) {
    this.nodeName = nodeName;
    this.startedAt = now;
    this.#syncPeriodMs = syncPeriodMs;
    const nothing = { health: neverSynced, report: undefined, plan: undefined, context: undefined };
    for (const f of families) this.#families.set(f, nothing);
  }

  get families(): ReadonlyMap<FamilyName, FamilyStatus> {
    return this.#families;
  }

  queued(family: FamilyName, now: number): void {
    const one = this.#families.get(family);
    if (one !== undefined) this.#families.set(family, { ...one, health: afterQueued(one.health, now) });
  }

  synced(report: SyncReport, plan: Plan | undefined, context?: Context): void {
    const one = this.#families.get(report.family);
    if (one !== undefined)
      this.#families.set(report.family, { health: afterSync(one.health, report), report, plan, context });
    this.history.synced(report);
  }

  /** `count` things of ours had been changed. */
  repaired(repair: Repair, count: number): void {
    this.driftRepairs += count;
    this.repairs = [...this.repairs, repair].slice(-keptRepairs);
  }

  healthFacts(): HealthFacts {
    return {
      families: new Map([...this.#families].map(([name, { health }]) => [name, health])),
      syncPeriodMs: this.#syncPeriodMs,
      nodeLeaving: this.nodeLeaving,
      warnings: [...this.warnings],
    };
  }

  facts(mode: string, source: string, lastContact: number | undefined): ProxyFacts {
    const families = [...this.#families].map(([family, { health, report }]) => ({
      family,
      lastSynced: health.lastSynced,
      dueSince: health.dueSince,
      error: report?.error,
      quarantined: report?.quarantined ?? [],
    }));
    const { nodeName, nodeKnown, pending } = this;
    return { mode, nodeName, nodeKnown, source, lastContact, families, pending };
  }
}
