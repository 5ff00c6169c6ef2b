/** The recent past for the status page's curves: bounded rings of syncs and of changes counted by ten seconds. */
import type { FamilyName } from "../model/family.ts";
import type { SyncReport } from "../model/report.ts";

export interface SyncPoint {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly family: FamilyName;
  /** Duration in milliseconds. */
  readonly ms: number;
  readonly ok: boolean;
  readonly full: boolean;
}

export interface ChangePoint {
  /** Start of its ten seconds, milliseconds since the epoch. */
  readonly at: number;
  readonly services: number;
  readonly endpoints: number;
}

export interface HistoryJson {
  readonly now: number;
  /** Oldest first, at most 120 a family. */
  readonly syncs: readonly SyncPoint[];
  /** Oldest first, one a ten seconds of the last fifteen minutes, those without changes too. */
  readonly changes: readonly ChangePoint[];
}

const syncsKept = 120;
const bucketMs = 10_000;
const bucketsKept = 90;

export class History {
  readonly #syncs = new Map<FamilyName, SyncPoint[]>();
  readonly #buckets = new Map<number, { services: number; endpoints: number }>();

  synced({ family, startedAt, finishedAt, ok, full }: SyncReport): void {
    const points = this.#syncs.get(family) ?? [];
    if (points.length === 0) this.#syncs.set(family, points);
    points.push({ at: finishedAt, family, ms: finishedAt - startedAt, ok, full });
    if (points.length > syncsKept) points.shift();
  }

  changed(services: number, endpoints: number, now: number): void {
    const at = bucketOf(now);
    const bucket = this.#buckets.get(at) ?? { services: 0, endpoints: 0 };
    this.#buckets.set(at, { services: bucket.services + services, endpoints: bucket.endpoints + endpoints });
    for (const old of this.#buckets.keys()) if (old <= at - bucketsKept * bucketMs) this.#buckets.delete(old);
  }

  json(now: number): HistoryJson {
    const last = bucketOf(now);
    const changes = Array.from({ length: bucketsKept }, (_, i) => {
      const at = last - (bucketsKept - 1 - i) * bucketMs;
      return { at, ...(this.#buckets.get(at) ?? { services: 0, endpoints: 0 }) };
    });
    return { now, syncs: [...this.#syncs.values()].flat().sort((a, b) => a.at - b.at), changes };
  }
}

// --- internal ---

function bucketOf(now: number): number {
  return now - (now % bucketMs);
}
