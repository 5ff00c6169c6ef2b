/** Every metric as data: name, type, labels, help, buckets, and where it exists. Names and types are kube-proxy's. */
import type { ProxyMode } from "../model/context.ts";

export interface MetricSpec {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
  readonly buckets?: readonly number[];
  /** Absent: all. */
  readonly modes?: readonly ProxyMode[];
  /** Exists only with this feature gate on. */
  readonly gate?: string;
}

/** The gate of nftables mode's node ports on localhost. */
export const localhostGate = "KubeProxyNFTablesLocalhostNodePorts";

const doublings = (start: number, count: number, factor = 2) =>
  Array.from({ length: count }, (_, i) => Number((start * factor ** i).toPrecision(12)));
const steps = (start: number, end: number, width: number) =>
  Array.from({ length: Math.round((end - start) / width) + 1 }, (_, i) => start + i * width);

export const syncBuckets = doublings(0.001, 15);
const programmingBuckets = [0.25, 0.5, ...steps(1, 60, 1), ...steps(65, 120, 5), ...steps(150, 300, 30)];
const requestBuckets = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const sizeBuckets = [64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216];

const iptables: readonly ProxyMode[] = ["iptables"];
const nftables: readonly ProxyMode[] = ["nftables"];
const perFamily = ["ip_family"];

type Rest = Partial<Pick<MetricSpec, "buckets" | "modes" | "gate">>;
const counter = (name: string, labels: readonly string[], help: string, rest: Rest = {}): MetricSpec => ({
  name,
  type: "counter",
  labels,
  help,
  ...rest,
});
const gauge = (name: string, labels: readonly string[], help: string, rest: Rest = {}): MetricSpec => ({
  ...counter(name, labels, help, rest),
  type: "gauge",
});
const histogram = (
  name: string,
  labels: readonly string[],
  help: string,
  buckets: readonly number[],
  rest: Rest = {},
): MetricSpec => ({ ...counter(name, labels, help, { ...rest, buckets }), type: "histogram" });

const rules = "kubeproxy_sync_proxy_rules_";

/** kube-proxy's own metrics. */
export const upstreamMetrics: readonly MetricSpec[] = [
  counter(
    "kubeproxy_conntrack_reconciler_deleted_entries_total",
    perFamily,
    "[ALPHA] Stale connection tracking entries that were deleted",
  ),
  histogram(
    "kubeproxy_conntrack_reconciler_sync_duration_seconds",
    perFamily,
    "[ALPHA] Time one clean-up of connection tracking entries took",
    syncBuckets,
  ),
  counter(
    "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
    [],
    "[ALPHA] Packets dropped because connection tracking found them invalid",
    { modes: iptables },
  ),
  counter(
    "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
    [],
    "[ALPHA] Packets accepted to node ports on loopback addresses",
    { modes: iptables },
  ),
  histogram(
    "kubeproxy_network_programming_duration_seconds",
    perFamily,
    "[ALPHA] Time from an endpoint change in the API until the kernel followed it",
    programmingBuckets,
  ),
  counter(
    "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
    perFamily,
    "[ALPHA] Listeners for node ports on localhost that could not be made",
    { modes: nftables, gate: localhostGate },
  ),
  gauge(
    "kubeproxy_nftables_localhost_nodeport_listeners",
    perFamily,
    "[ALPHA] Open listeners for node ports on localhost",
    { modes: nftables, gate: localhostGate },
  ),
  counter(
    "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
    ["ip_family", "protocol"],
    "[ALPHA] Packets to node ports on localhost that were rejected",
    { modes: nftables, gate: localhostGate },
  ),
  counter("kubeproxy_proxy_healthz_total", ["code"], "[ALPHA] Answers given by /healthz, by status code"),
  counter("kubeproxy_proxy_livez_total", ["code"], "[ALPHA] Answers given by /livez, by status code"),
  histogram(
    "kubeproxy_sync_full_proxy_rules_duration_seconds",
    perFamily,
    "[ALPHA] Time one full sync took",
    syncBuckets,
    { modes: ["iptables", "nftables"] },
  ),
  histogram(
    "kubeproxy_sync_partial_proxy_rules_duration_seconds",
    perFamily,
    "[ALPHA] Time one sync of changed Services only took",
    syncBuckets,
    { modes: ["iptables", "nftables"] },
  ),
  histogram("kubeproxy_sync_proxy_rules_duration_seconds", perFamily, "[ALPHA] Time one sync took", syncBuckets),
  gauge(`${rules}endpoint_changes_pending`, [], "[ALPHA] Endpoint changes not yet in the kernel"),
  counter(`${rules}endpoint_changes_total`, [], "[ALPHA] Endpoint changes seen"),
  gauge(`${rules}iptables_last`, ["ip_family", "table"], "[ALPHA] iptables rules written by the last sync", {
    modes: iptables,
  }),
  counter(
    `${rules}iptables_partial_restore_failures_total`,
    perFamily,
    "[ALPHA] Failed syncs of changed Services only",
    { modes: iptables },
  ),
  counter(`${rules}iptables_restore_failures_total`, perFamily, "[ALPHA] Failed syncs", {
    modes: ["iptables", "ipvs"],
  }),
  gauge(`${rules}iptables_total`, ["ip_family", "table"], "[ALPHA] iptables rules that kube-proxy owns", {
    modes: iptables,
  }),
  gauge(`${rules}last_queued_timestamp_seconds`, perFamily, "[ALPHA] When a sync was last asked for"),
  gauge(`${rules}last_timestamp_seconds`, perFamily, "[ALPHA] When a sync last succeeded"),
  counter(
    `${rules}nftables_cleanup_failures_total`,
    perFamily,
    "[ALPHA] Removals of stale nftables chains that failed",
    { modes: nftables },
  ),
  counter(`${rules}nftables_sync_failures_total`, perFamily, "[ALPHA] Failed syncs", { modes: nftables }),
  gauge(
    `${rules}no_local_endpoints_total`,
    ["ip_family", "traffic_policy"],
    "[ALPHA] Service ports with a Local traffic policy and endpoints on other nodes only",
  ),
  gauge(`${rules}service_changes_pending`, [], "[ALPHA] Service changes not yet in the kernel"),
  counter(`${rules}service_changes_total`, [], "[ALPHA] Service changes seen"),
];

const buildLabels = [
  "build_date",
  "compiler",
  "git_commit",
  "git_tree_state",
  "git_version",
  "go_version",
  "major",
  "minor",
  "platform",
];

/** Metrics every Kubernetes component has. */
export const componentMetrics: readonly MetricSpec[] = [
  gauge("kubernetes_build_info", buildLabels, "[BETA] Always 1; the labels say what was built, from what, with what"),
  gauge("kubernetes_feature_enabled", ["name", "stage"], "[BETA] 1 when the feature gate is on"),
  histogram(
    "rest_client_request_duration_seconds",
    ["verb", "host"],
    "[ALPHA] Time API requests took until the answer's headers",
    requestBuckets,
  ),
  histogram(
    "rest_client_request_size_bytes",
    ["verb", "host"],
    "[ALPHA] Size of the bodies of API requests",
    sizeBuckets,
  ),
  counter("rest_client_requests_total", ["code", "host", "method"], "[ALPHA] API requests, by status code"),
];

export const processMetrics: readonly MetricSpec[] = [
  counter("process_cpu_seconds_total", [], "User and system CPU time spent"),
  gauge("process_max_fds", [], "Limit of open file descriptors"),
  counter("process_network_receive_bytes_total", [], "Bytes received in the process's network namespace"),
  counter("process_network_transmit_bytes_total", [], "Bytes sent in the process's network namespace"),
  gauge("process_open_fds", [], "Open file descriptors"),
  gauge("process_resident_memory_bytes", [], "Resident memory"),
  gauge("process_start_time_seconds", [], "Start of the process, seconds since the epoch"),
  gauge("process_virtual_memory_bytes", [], "Virtual memory"),
  gauge("process_virtual_memory_max_bytes", [], "Limit of virtual memory"),
];

/** What kube-proxy does not have. */
export const ownMetrics: readonly MetricSpec[] = [
  gauge("kubeproxy_build_info", ["version", "bun", "revision", "mode"], "Always 1; the labels say what runs"),
  gauge("kubeproxy_api_last_contact_seconds", [], "Seconds since the API server was last heard"),
  gauge("kubeproxy_node_known", [], "1 when the Node of this machine was found in the API, else 0"),
  counter("kubeproxy_drift_repairs_total", ["kind"], "Things of ours that others changed and that were put right"),
  gauge("kubeproxy_quarantined_services", perFamily, "Services left out because the kernel refuses their rules"),
  histogram(
    "kubeproxy_sync_stage_duration_seconds",
    ["ip_family", "stage"],
    "Time one stage of a sync took",
    syncBuckets,
  ),
  counter("kubeproxy_sync_failures_total", perFamily, "Failed syncs, in any mode"),
];

/** The metrics that exist in a mode with these feature gates on. */
export function metricsOf(mode: ProxyMode, gates: ReadonlySet<string>): readonly MetricSpec[] {
  return [...upstreamMetrics, ...componentMetrics, ...processMetrics, ...ownMetrics].filter(
    (spec) => (!spec.modes || spec.modes.includes(mode)) && (spec.gate === undefined || gates.has(spec.gate)),
  );
}
