/** What the proxy's health is, worked out from when each family was last asked to sync and last did. Pure. */
import type { FamilyName } from "../model/family.ts";

/** All times in milliseconds since the epoch; undefined: never (or, for `dueSince`, nothing is due). */
export interface FamilyHealth {
  readonly lastSynced: number | undefined;
  /** The oldest change asked for that no successful sync has covered yet. */
  readonly dueSince: number | undefined;
  /** The newest change asked for. */
  readonly lastQueued: number | undefined;
}

export const neverSynced: FamilyHealth = { lastSynced: undefined, dueSince: undefined, lastQueued: undefined };

/** A sync was asked for at `now`. */
export function afterQueued(health: FamilyHealth, now: number): FamilyHealth {
  return { ...health, dueSince: health.dueSince ?? now, lastQueued: now };
}

/**
 * A sync ran from `startedAt` to `finishedAt`. A failed one changes nothing: what was due stays due, and if nothing was
 * (a periodic sync) it is due since it started. What was asked for while it ran is due from its start, for the oldest
 * such moment is not kept.
 */
export function afterSync(
  health: FamilyHealth,
  sync: { readonly ok: boolean; readonly startedAt: number; readonly finishedAt: number },
): FamilyHealth {
  if (!sync.ok) return { ...health, dueSince: health.dueSince ?? sync.startedAt };
  const more = health.dueSince !== undefined && (health.lastQueued ?? 0) > sync.startedAt;
  const dueSince = more ? Math.max(health.dueSince ?? 0, sync.startedAt) : undefined;
  return { ...health, lastSynced: sync.finishedAt, dueSince };
}

export interface HealthFacts {
  readonly families: ReadonlyMap<FamilyName, FamilyHealth>;
  readonly syncPeriodMs: number;
  /** The Node is being deleted, or has the taint ToBeDeletedByClusterAutoscaler. */
  readonly nodeLeaving: boolean;
  /** Things an operator should know, one line each; shown, never counted. */
  readonly warnings?: readonly string[];
}

export interface FamilyVerdict {
  readonly lastUpdated: number | undefined;
  readonly healthy: boolean;
}

export interface Health {
  /** Rules are kept up to date in every family. */
  readonly healthy: boolean;
  /** The oldest of the families' last successful syncs; undefined while one has none. */
  readonly lastUpdated: number | undefined;
  readonly families: ReadonlyMap<FamilyName, FamilyVerdict>;
  readonly nodeEligible: boolean;
  readonly warnings: readonly string[];
}

/** The verdict at `now`: unhealthy until each family has synced once, and when a sync is due for over two periods. */
export function judgeHealth(facts: HealthFacts, now: number): Health {
  const verdicts = new Map<FamilyName, FamilyVerdict>();
  for (const [family, { lastSynced, dueSince }] of facts.families) {
    const late = dueSince !== undefined && now - dueSince > 2 * facts.syncPeriodMs;
    verdicts.set(family, { lastUpdated: lastSynced, healthy: lastSynced !== undefined && !late });
  }
  const all = [...verdicts.values()];
  const oldest = Math.min(...all.map((one) => one.lastUpdated ?? Number.NEGATIVE_INFINITY));
  return {
    healthy: all.length > 0 && all.every((one) => one.healthy),
    lastUpdated: Number.isFinite(oldest) ? oldest : undefined,
    families: verdicts,
    nodeEligible: !facts.nodeLeaving,
    warnings: facts.warnings ?? [],
  };
}

/** Status and JSON body of `/healthz` (`withNode`) or `/livez` (which a leaving Node does not fail). */
export function healthBody(health: Health, now: number, withNode: boolean): { status: number; body: string } {
  const healthy = health.healthy && (!withNode || health.nodeEligible);
  const status: Record<string, unknown> = {};
  for (const [family, verdict] of health.families) {
    status[family] = { lastUpdated: goTime(verdict.lastUpdated), healthy: verdict.healthy };
  }
  // A healthy proxy with nothing to do reports "now": probes that compare lastUpdated with the clock stay green.
  const lastUpdated = health.healthy ? now : health.lastUpdated;
  const body = {
    lastUpdated: goTime(lastUpdated),
    currentTime: goTime(now),
    ...(withNode ? { nodeEligible: health.nodeEligible } : {}),
    healthy,
    status,
    ...(health.warnings.length > 0 ? { warnings: health.warnings } : {}),
  };
  return { status: healthy ? 200 : 503, body: JSON.stringify(body) };
}

/** RFC 3339 as Go writes it: no trailing zeros in the fraction; never: year 1. */
export function goTime(ms: number | undefined): string {
  if (ms === undefined) return "0001-01-01T00:00:00Z";
  return new Date(ms).toISOString().replace(/\.?0*Z$/, "Z");
}
