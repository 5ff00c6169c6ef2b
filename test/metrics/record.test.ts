/** Every metric moves: what happened goes in as data, the printed text is read back. */
import { describe, expect, test } from "bun:test";
import { localhostGate, metricsOf } from "../../src/metrics/catalogue.ts";
import { createRecorder } from "../../src/metrics/record.ts";
import { createMetrics, type Metrics, type SampleSource } from "../../src/metrics/registry.ts";
import type { ProxyMode } from "../../src/model/context.ts";
import type { SyncReport } from "../../src/model/report.ts";
import { parseExposition, promtool, type Samples } from "./exposition.ts";

const gates = [
  { name: localhostGate, stage: "ALPHA", enabled: true },
  { name: "Other", stage: "BETA", enabled: false },
];

function make(mode: ProxyMode, ...sources: readonly SampleSource[]): Metrics {
  return createMetrics({
    mode,
    families: ["IPv4", "IPv6"],
    gates,
    build: { git_version: "v1.37.0", major: "1", minor: "37", compiler: "bun" },
    own: { version: "1.37.0", bun: "1.4.5", revision: 'a"b\\c\nd' },
    sources,
    sourceTimeoutMs: 50,
  });
}

function report(more: Partial<SyncReport> = {}): SyncReport {
  return {
    family: "IPv4",
    mode: "iptables",
    startedAt: 100_000,
    finishedAt: 100_500,
    full: true,
    ok: true,
    error: undefined,
    stages: { plan: 10, desired: 20, observe: 30, diff: 40, apply: 400 },
    counts: { filter: 12, nat: 34, filter_last: 5, nat_last: 6, cleanup_failures: 2 },
    triggers: [99_000, 40_500],
    noLocalEndpoints: { internal: 1, external: 2 },
    quarantined: [{ service: "ns/a", reason: "no", since: 1 }],
    ...more,
  };
}

async function read(metrics: Metrics): Promise<Samples> {
  return parseExposition(await metrics.text());
}

/** Runs `act`; answers which samples changed, as `name{labels}: before → after` pairs. */
async function changes(metrics: Metrics, act: () => void): Promise<Record<string, number>> {
  const before = await read(metrics);
  act();
  const after = await read(metrics);
  return Object.fromEntries(
    [...after].filter(([key, value]) => before.get(key) !== value && !key.includes("_bucket{")),
  );
}

const rules = "kubeproxy_sync_proxy_rules_";

describe("a sync", () => {
  test("that succeeds, full", async () => {
    const metrics = make("iptables");
    const recorder = createRecorder(metrics);
    expect(await changes(metrics, () => recorder.synced(report()))).toEqual({
      [`${rules}duration_seconds_sum{ip_family="IPv4"}`]: 0.5,
      [`${rules}duration_seconds_count{ip_family="IPv4"}`]: 1,
      'kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family="IPv4"}': 0.5,
      'kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}': 1,
      [`${rules}last_timestamp_seconds{ip_family="IPv4"}`]: 100.5,
      'kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"}': 61.5,
      'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}': 2,
      [`${rules}no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"}`]: 1,
      [`${rules}no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"}`]: 2,
      [`${rules}iptables_total{ip_family="IPv4",table="filter"}`]: 12,
      [`${rules}iptables_total{ip_family="IPv4",table="nat"}`]: 34,
      [`${rules}iptables_last{ip_family="IPv4",table="filter"}`]: 5,
      [`${rules}iptables_last{ip_family="IPv4",table="nat"}`]: 6,
      'kubeproxy_quarantined_services{ip_family="IPv4"}': 1,
      ...Object.fromEntries(
        Object.entries({ plan: 0.01, desired: 0.02, observe: 0.03, diff: 0.04, apply: 0.4 }).flatMap(([stage, sum]) => [
          [`kubeproxy_sync_stage_duration_seconds_sum{ip_family="IPv4",stage="${stage}"}`, sum],
          [`kubeproxy_sync_stage_duration_seconds_count{ip_family="IPv4",stage="${stage}"}`, 1],
        ]),
      ),
    });
  });

  test("that succeeds, partial, of another family: what is not written counts as zero", async () => {
    const metrics = make("iptables");
    const recorder = createRecorder(metrics);
    recorder.synced(report({ family: "IPv6" }));
    const moved = await changes(metrics, () =>
      recorder.synced(
        report({ family: "IPv6", full: false, counts: { filter: 12, nat: 40, nat_last: 3 }, triggers: [] }),
      ),
    );
    expect(moved).toMatchObject({
      'kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv6"}': 1,
      [`${rules}iptables_total{ip_family="IPv6",table="nat"}`]: 40,
      [`${rules}iptables_last{ip_family="IPv6",table="nat"}`]: 3,
      [`${rules}iptables_last{ip_family="IPv6",table="filter"}`]: 0,
    });
    expect(Object.keys(moved).filter((key) => key.includes("IPv4"))).toEqual([]);
  });

  test.each([
    ["iptables", true, [`${rules}iptables_restore_failures_total`]],
    ["iptables", false, [`${rules}iptables_restore_failures_total`, `${rules}iptables_partial_restore_failures_total`]],
    ["ipvs", true, [`${rules}iptables_restore_failures_total`]],
    ["nftables", false, [`${rules}nftables_sync_failures_total`]],
  ] as const)("that fails in %s mode (full: %p)", async (mode, full, names) => {
    const metrics = make(mode);
    const recorder = createRecorder(metrics);
    const moved = await changes(metrics, () => recorder.synced(report({ mode, full, ok: false, triggers: [] })));
    const failures = Object.keys(moved).filter((key) => key.includes("failures_total"));
    const expected = [...names, "kubeproxy_sync_failures_total"].map((name) => `${name}{ip_family="IPv4"}`);
    expect(failures.sort()).toEqual(expected.sort());
    expect(moved[`${rules}last_timestamp_seconds{ip_family="IPv4"}`]).toBeUndefined();
  });

  test("chains that could not be removed (nftables)", async () => {
    const metrics = make("nftables");
    const moved = await changes(metrics, () => createRecorder(metrics).synced(report({ mode: "nftables" })));
    expect(moved[`${rules}nftables_cleanup_failures_total{ip_family="IPv4"}`]).toBe(2);
  });

  test("whose clock went backwards observes no negative time", async () => {
    const metrics = make("nftables");
    createRecorder(metrics).synced(report({ finishedAt: 99_000 }));
    expect((await read(metrics)).get(`${rules}duration_seconds_sum{ip_family="IPv4"}`)).toBe(0);
  });
});

test("changes are pending until every family has them, and counted once", async () => {
  const metrics = make("nftables");
  const recorder = createRecorder(metrics);
  const pending = async () => {
    const samples = await read(metrics);
    return [
      "service_changes_pending",
      "endpoint_changes_pending",
      "service_changes_total",
      "endpoint_changes_total",
    ].map((name) => samples.get(rules + name));
  };
  recorder.changed({ services: 2, endpoints: 5 }, 1_000);
  recorder.changed({ services: 1, endpoints: 0 }, 2_000);
  expect(await pending()).toEqual([3, 5, 3, 5]);
  recorder.synced(report({ family: "IPv4", startedAt: 1_500, finishedAt: 2_500 }));
  expect(await pending()).toEqual([3, 5, 3, 5]);
  recorder.synced(report({ family: "IPv6", startedAt: 3_000, finishedAt: 3_100, ok: false }));
  expect(await pending()).toEqual([3, 5, 3, 5]);
  recorder.synced(report({ family: "IPv6", startedAt: 3_000, finishedAt: 3_100 }));
  expect(await pending()).toEqual([1, 0, 3, 5]);
  for (let i = 0; i < 1_000; i++) recorder.changed({ services: 0, endpoints: 1 }, 4_000 + i);
  expect(await pending()).toEqual([1, 1_000, 3, 1_005]);
  recorder.synced(report({ family: "IPv4", startedAt: 9_000 }));
  recorder.synced(report({ family: "IPv6", startedAt: 9_000 }));
  expect(await pending()).toEqual([0, 0, 3, 1_005]);
});

test("everything else that happens", async () => {
  const metrics = make("nftables");
  const recorder = createRecorder(metrics);
  const moved = await changes(metrics, () => {
    recorder.queued("IPv6", 7_250);
    recorder.conntrack("IPv4", 250, 3);
    recorder.drift("chain", 2);
    recorder.answered("healthz", 200);
    recorder.answered("livez", 503);
    recorder.request({ method: "GET", host: "10.96.0.1:443", code: 200, milliseconds: 30, bodyBytes: 0 });
    recorder.request({ method: "POST", host: "10.96.0.1:443", code: "<error>", milliseconds: 1000, bodyBytes: 700 });
  });
  const host = 'host="10.96.0.1:443"';
  expect(moved).toEqual({
    [`${rules}last_queued_timestamp_seconds{ip_family="IPv6"}`]: 7.25,
    'kubeproxy_conntrack_reconciler_sync_duration_seconds_sum{ip_family="IPv4"}': 0.25,
    'kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"}': 1,
    'kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}': 3,
    'kubeproxy_drift_repairs_total{kind="chain"}': 2,
    'kubeproxy_proxy_healthz_total{code="200"}': 1,
    'kubeproxy_proxy_livez_total{code="503"}': 1,
    [`rest_client_requests_total{code="200",${host},method="GET"}`]: 1,
    [`rest_client_requests_total{code="<error>",${host},method="POST"}`]: 1,
    [`rest_client_request_duration_seconds_sum{${host},verb="GET"}`]: 0.03,
    [`rest_client_request_duration_seconds_count{${host},verb="GET"}`]: 1,
    [`rest_client_request_duration_seconds_sum{${host},verb="POST"}`]: 1,
    [`rest_client_request_duration_seconds_count{${host},verb="POST"}`]: 1,
    [`rest_client_request_size_bytes_sum{${host},verb="GET"}`]: 0,
    [`rest_client_request_size_bytes_count{${host},verb="GET"}`]: 1,
    [`rest_client_request_size_bytes_sum{${host},verb="POST"}`]: 700,
    [`rest_client_request_size_bytes_count{${host},verb="POST"}`]: 1,
  });
});

describe("values kept elsewhere", () => {
  test("are read at each scrape; one that fails or hangs keeps its last value", async () => {
    let dropped = 5;
    let broken = false;
    const metrics = make(
      "iptables",
      async () => {
        if (broken) throw new Error("nfacct: not found");
        return [{ name: "kubeproxy_iptables_ct_state_invalid_dropped_packets_total", value: dropped }];
      },
      () => new Promise(() => {}),
      () => [{ name: "kubeproxy_api_last_contact_seconds", value: 1.5 }],
    );
    const name = "kubeproxy_iptables_ct_state_invalid_dropped_packets_total";
    expect((await read(metrics)).get(name)).toBe(5);
    dropped = 9;
    expect((await read(metrics)).get(name)).toBe(9);
    broken = true;
    const samples = await read(metrics);
    expect(samples.get(name)).toBe(9);
    expect(samples.get("kubeproxy_api_last_contact_seconds")).toBe(1.5);
  });

  test("two scrapes at once do not mix", async () => {
    const metrics = make("iptables", async () => [{ name: "process_cpu_seconds_total", value: 3 }]);
    const [one, two] = await Promise.all([read(metrics), read(metrics)]);
    expect([one.get("process_cpu_seconds_total"), two.get("process_cpu_seconds_total")]).toEqual([3, 3]);
  });

  test("of metrics that do not exist anywhere are a programming error", () => {
    expect(() => make("iptables").set("kubeproxy_typo", {}, 1)).toThrow("no such metric: kubeproxy_typo");
    expect(() => make("ipvs").set("process_open_fds", {}, Number.NaN)).not.toThrow();
  });
});

describe.each(["iptables", "ipvs", "nftables"] as const)("%s text", (mode) => {
  async function busy(): Promise<string> {
    const metrics = make(mode, () => [
      { name: "kubeproxy_iptables_localhost_nodeports_accepted_packets_total", value: 4 },
      { name: "kubeproxy_nftables_localhost_nodeport_listeners", labels: { ip_family: "IPv4" }, value: 3 },
      {
        name: "kubeproxy_nftables_localhost_nodeport_rejected_packets_total",
        labels: { ip_family: "IPv4", protocol: "udp" },
        value: 2,
      },
      {
        name: "kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total",
        labels: { ip_family: "IPv6" },
        value: 1,
      },
      { name: "kubeproxy_node_known", value: 1 },
    ]);
    const recorder = createRecorder(metrics);
    recorder.synced(report({ mode }));
    recorder.synced(report({ mode, ok: false, full: false }));
    recorder.request({ method: "GET", host: "[fd00::1]:443", code: 200, milliseconds: 1, bodyBytes: 1 });
    return metrics.text();
  }

  test("has every metric of the mode with a sample, and each of our values", async () => {
    const text = await busy();
    const samples = parseExposition(text);
    for (const spec of metricsOf(mode, new Set([localhostGate]))) {
      expect(text).toContain(`# TYPE ${spec.name} ${spec.type}\n`);
    }
    expect(samples.get(`kubernetes_feature_enabled{name="${localhostGate}",stage="ALPHA"}`)).toBe(1);
    expect(samples.get('kubernetes_feature_enabled{name="Other",stage="BETA"}')).toBe(0);
    expect([...samples.keys()].find((key) => key.startsWith("kubernetes_build_info{"))).toContain(
      'git_version="v1.37.0"',
    );
    expect(
      samples.get(`kubeproxy_build_info{bun="1.4.5",mode="${mode}",revision="a\\"b\\\\c\\nd",version="1.37.0"}`),
    ).toBe(1);
    expect(samples.get('kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv4"}')).toBe(
      mode === "nftables" ? 3 : undefined,
    );
    expect(samples.get("kubeproxy_iptables_localhost_nodeports_accepted_packets_total")).toBe(
      mode === "iptables" ? 4 : undefined,
    );
  });

  test("passes promtool, except for names that are kube-proxy's", async () => {
    const verdict = promtool(await busy());
    if (!verdict) {
      console.log("skipped: promtool is not installed (apt-get install prometheus)");
      return;
    }
    const lint = verdict.lines.filter(
      (line) => !/^kubeproxy_sync_proxy_rules_(iptables|no_local_endpoints)_total non-counter/.test(line),
    );
    expect(lint).toEqual([]);
    expect([0, 3]).toContain(verdict.code);
  });
});

test("histograms hold their upper bounds", async () => {
  const metrics = make("iptables");
  createRecorder(metrics).synced(report());
  const samples = await read(metrics);
  const bucket = (le: string) =>
    samples.get(`kubeproxy_network_programming_duration_seconds_bucket{ip_family="IPv4",le="${le}"}`);
  expect([bucket("1"), bucket("2"), bucket("60"), bucket("+Inf")]).toEqual([0, 1, 2, 2]);
});

test("series start at zero, but times do not start in 1970", async () => {
  const samples = await read(make("iptables"));
  expect(samples.get('kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv6"}')).toBe(0);
  expect(samples.get('kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}')).toBe(0);
  expect([...samples.keys()].filter((key) => key.includes("_timestamp_seconds"))).toEqual([]);
});
