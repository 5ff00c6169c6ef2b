/** What happened, as data, turned into metric values: the only place that knows which event moves which metric. */
import type { FamilyName } from "../model/family.ts";
import type { ChangeCounts, StageTimes, SyncReport } from "../model/report.ts";
import { PendingChanges } from "./pending-changes.ts";
import type { Metrics } from "./registry.ts";

const rules = "kubeproxy_sync_proxy_rules_";

/** Turns reports into metric values; holds what successive reports add up to. */
export interface Recorder {
  /** Objects changed in the API; counted once, not per family. Times in milliseconds since the epoch. */
  changed(counts: ChangeCounts, now: number): void;
  /** A sync was asked for. */
  queued(family: FamilyName, now: number): void;
  synced(report: SyncReport): void;
  conntrack(family: FamilyName, milliseconds: number, deleted: number): void;
  /** `kind` as in the backend's Drift. */
  drift(kind: string, repaired: number): void;
  answered(endpoint: "healthz" | "livez", status: number): void;
  request(request: RestRequest): void;
}

export interface RestRequest {
  readonly method: string;
  /** `host:port` of the API server. */
  readonly host: string;
  /** HTTP status; `<error>` when there was no answer. */
  readonly code: number | "<error>";
  readonly milliseconds: number;
  readonly bodyBytes: number;
}

export function createRecorder(metrics: Metrics): Recorder {
  const pending = new PendingChanges(metrics.families);
  const showPending = () => {
    const { services, endpoints } = pending.count();
    metrics.set(`${rules}service_changes_pending`, {}, services);
    metrics.set(`${rules}endpoint_changes_pending`, {}, endpoints);
  };
  return {
    changed(counts, now) {
      pending.arrived(counts, now);
      metrics.increment(`${rules}service_changes_total`, {}, counts.services);
      metrics.increment(`${rules}endpoint_changes_total`, {}, counts.endpoints);
      showPending();
    },
    queued: (family, now) => metrics.set(`${rules}last_queued_timestamp_seconds`, { ip_family: family }, now / 1000),
    synced(report) {
      recordDurations(metrics, report);
      if (!report.ok) return recordFailure(metrics, report);
      recordSuccess(metrics, report);
      pending.done(report.family, report.startedAt);
      showPending();
    },
    conntrack(family, milliseconds, deleted) {
      const labels = { ip_family: family };
      metrics.observe("kubeproxy_conntrack_reconciler_sync_duration_seconds", labels, milliseconds / 1000);
      metrics.increment("kubeproxy_conntrack_reconciler_deleted_entries_total", labels, deleted);
    },
    drift: (kind, repaired) => metrics.increment("kubeproxy_drift_repairs_total", { kind }, repaired),
    answered: (endpoint, status) => metrics.increment(`kubeproxy_proxy_${endpoint}_total`, { code: String(status) }),
    request({ method, host, code, milliseconds, bodyBytes }) {
      metrics.increment("rest_client_requests_total", { code: String(code), host, method });
      metrics.observe("rest_client_request_duration_seconds", { verb: method, host }, milliseconds / 1000);
      metrics.observe("rest_client_request_size_bytes", { verb: method, host }, bodyBytes);
    },
  };
}

function recordDurations(metrics: Metrics, report: SyncReport): void {
  const labels = { ip_family: report.family };
  const seconds = (report.finishedAt - report.startedAt) / 1000;
  metrics.observe(`${rules}duration_seconds`, labels, seconds);
  const kind = report.full ? "full" : "partial";
  metrics.observe(`kubeproxy_sync_${kind}_proxy_rules_duration_seconds`, labels, seconds);
  const stages: readonly (keyof StageTimes)[] = ["plan", "desired", "observe", "diff", "apply"];
  for (const stage of stages) {
    metrics.observe("kubeproxy_sync_stage_duration_seconds", { ...labels, stage }, report.stages[stage] / 1000);
  }
  metrics.set("kubeproxy_quarantined_services", labels, report.quarantined.length);
}

function recordSuccess(metrics: Metrics, report: SyncReport): void {
  const labels = { ip_family: report.family };
  metrics.set(`${rules}last_timestamp_seconds`, labels, report.finishedAt / 1000);
  for (const trigger of report.triggers) {
    metrics.observe("kubeproxy_network_programming_duration_seconds", labels, (report.finishedAt - trigger) / 1000);
  }
  for (const traffic_policy of ["internal", "external"] as const) {
    const ports = report.noLocalEndpoints[traffic_policy];
    metrics.set(`${rules}no_local_endpoints_total`, { ...labels, traffic_policy }, ports);
  }
  for (const table of ["filter", "nat"]) {
    const total = report.counts[table];
    if (total !== undefined) metrics.set(`${rules}iptables_total`, { ...labels, table }, total);
    metrics.set(`${rules}iptables_last`, { ...labels, table }, report.counts[`${table}_last`] ?? 0);
  }
  metrics.increment(`${rules}nftables_cleanup_failures_total`, labels, report.counts["cleanup_failures"] ?? 0);
}

function recordFailure(metrics: Metrics, report: SyncReport): void {
  const labels = { ip_family: report.family };
  metrics.increment("kubeproxy_sync_failures_total", labels);
  metrics.increment(`${rules}iptables_restore_failures_total`, labels);
  if (!report.full) metrics.increment(`${rules}iptables_partial_restore_failures_total`, labels);
  metrics.increment(`${rules}nftables_sync_failures_total`, labels);
}
