/** What one sync of one family did, as data: metrics, health, events and conntrack follow-up read it. */
import type { ProxyMode } from "./context.ts";
import type { FamilyName } from "./family.ts";

export interface Quarantine {
  /** Service key. */
  readonly service: string;
  /** Why it is not programmed, one line. */
  readonly reason: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
}

/** Milliseconds a stage took. */
export interface StageTimes {
  readonly plan: number;
  readonly desired: number;
  readonly observe: number;
  readonly diff: number;
  readonly apply: number;
}

export interface SyncReport {
  readonly family: FamilyName;
  readonly mode: ProxyMode;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly finishedAt: number;
  /** A full sync started from what the kernel was read to hold; a partial one from what was last applied. */
  readonly full: boolean;
  readonly ok: boolean;
  /** Set when not ok: one line. */
  readonly error: string | undefined;
  readonly stages: StageTimes;
  /** Backend counters: iptables `filter`, `nat` (rules owned), `filter_last`, `nat_last` (rules written); others as named there. */
  readonly counts: Readonly<Record<string, number>>;
  /** Trigger times (ms since the epoch) of the endpoint changes that this sync programmed; kept over failed syncs. */
  readonly triggers: readonly number[];
  readonly noLocalEndpoints: { readonly internal: number; readonly external: number };
  readonly quarantined: readonly Quarantine[];
}

/** Changes that arrived from the API, counted by the app over both families (metrics `sync_proxy_rules_*_changes_*`). */
export interface ChangeCounts {
  readonly services: number;
  readonly endpoints: number;
}
