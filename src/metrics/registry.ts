/** The metric values of this process: one registry per proxier mode, made from the catalogue, printed on request. */
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { ProxyMode } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import {
  componentMetrics,
  type MetricSpec,
  metricsOf,
  ownMetrics,
  processMetrics,
  upstreamMetrics,
} from "./catalogue.ts";

export type Labels = Readonly<Record<string, string>>;

/** A value kept elsewhere: a gauge's value, or a counter's total. */
export interface Sample {
  readonly name: string;
  readonly labels?: Labels;
  readonly value: number;
}

/** Read at each scrape. One that fails or takes too long leaves the values as they were. */
export type SampleSource = () => readonly Sample[] | Promise<readonly Sample[]>;

export interface FeatureGate {
  readonly name: string;
  /** `ALPHA`, `BETA`, `DEPRECATED`, or empty for GA. */
  readonly stage: string;
  readonly enabled: boolean;
}

export interface MetricsOptions {
  readonly mode: ProxyMode;
  /** Those that are synced: labelled series start at zero for them. */
  readonly families: readonly FamilyName[];
  readonly gates: readonly FeatureGate[];
  /** Labels of kubernetes_build_info. */
  readonly build: Labels;
  /** Labels of kubeproxy_build_info besides the mode: version, bun, revision. */
  readonly own: Labels;
  readonly sources: readonly SampleSource[];
  /** Default 2,000. */
  readonly sourceTimeoutMs?: number;
}

/** Names are the catalogue's; one that does not exist in this mode is passed over, one that exists nowhere throws. */
export interface Metrics {
  readonly mode: ProxyMode;
  readonly families: readonly FamilyName[];
  increment(name: string, labels?: Labels, by?: number): void;
  set(name: string, labels: Labels, value: number): void;
  observe(name: string, labels: Labels, value: number): void;
  /** Prometheus text format 0.0.4. */
  text(): Promise<string>;
}

export function createMetrics(options: MetricsOptions): Metrics {
  const gates = new Set(options.gates.filter((gate) => gate.enabled).map((gate) => gate.name));
  const registry = new Registry();
  const held = new Map<string, Held>();
  for (const spec of metricsOf(options.mode, gates)) held.set(spec.name, make(spec, registry));
  const find = (name: string): Held | undefined => {
    const found = held.get(name);
    if (!found && !knownNames.has(name)) throw new Error(`no such metric: ${name}`);
    return found;
  };
  const metrics: Metrics = {
    mode: options.mode,
    families: options.families,
    increment: (name, labels = {}, by = 1) => {
      const found = find(name);
      if (found?.type === "counter" && by > 0) found.metric.inc(labels, by);
    },
    set: (name, labels, value) => put(find(name), labels, value),
    observe: (name, labels, value) => {
      const found = find(name);
      // A clock set back must not make a negative duration.
      if (found?.type === "histogram" && Number.isFinite(value)) found.metric.observe(labels, Math.max(value, 0));
    },
    async text() {
      const all = await Promise.all(
        options.sources.map((source) => readSource(source, options.sourceTimeoutMs ?? 2_000)),
      );
      for (const { name, labels, value } of all.flat()) metrics.set(name, labels ?? {}, value);
      // prom-client spells it "Nan", which Go reads and others do not.
      return (await registry.metrics()).replace(/ Nan$/gm, " NaN");
    },
  };
  startAtZero(held, options);
  return metrics;
}

type Held =
  | { readonly type: "counter"; readonly spec: MetricSpec; readonly metric: Counter }
  | { readonly type: "gauge"; readonly spec: MetricSpec; readonly metric: Gauge }
  | { readonly type: "histogram"; readonly spec: MetricSpec; readonly metric: Histogram };

const knownNames: ReadonlySet<string> = new Set(
  [...upstreamMetrics, ...componentMetrics, ...processMetrics, ...ownMetrics].map((spec) => spec.name),
);

function make(spec: MetricSpec, registry: Registry): Held {
  const base = { name: spec.name, help: spec.help, labelNames: spec.labels, registers: [registry] };
  if (spec.type === "counter") return { type: "counter", spec, metric: new Counter(base) };
  if (spec.type === "gauge") return { type: "gauge", spec, metric: new Gauge(base) };
  return { type: "histogram", spec, metric: new Histogram({ ...base, buckets: [...(spec.buckets ?? [])] }) };
}

/** Counters kept elsewhere (the kernel, /proc) are given as totals; prom-client only knows increments. */
function put(held: Held | undefined, labels: Labels, value: number): void {
  if (!held || !Number.isFinite(value)) return;
  if (held.type === "gauge") held.metric.set(labels, value);
  if (held.type === "counter") {
    held.metric.remove(labels);
    held.metric.inc(labels, Math.max(value, 0));
  }
}

const startLabels: Readonly<Record<string, readonly string[]>> = {
  code: ["200", "503"],
  table: ["filter", "nat"],
  traffic_policy: ["internal", "external"],
  protocol: ["tcp", "udp", "sctp"],
  stage: ["plan", "desired", "observe", "diff", "apply"],
};

/** A series that is missing until its first event hides that event from `rate()`. */
function startAtZero(held: ReadonlyMap<string, Held>, options: MetricsOptions): void {
  for (const one of held.values()) {
    // A time of 0 would be 1970 to an alert on a sync's age.
    const counts = one.spec.name.startsWith("kubeproxy_") && !one.spec.name.endsWith("_timestamp_seconds");
    const labelled = counts && one.spec.labels.length > 0;
    if (!labelled || !one.spec.labels.every((label) => label === "ip_family" || startLabels[label])) continue;
    for (const labels of combinations(one.spec.labels, options.families)) {
      if (one.type === "histogram") one.metric.zero(labels);
      else if (one.type === "counter") one.metric.inc(labels, 0);
      else one.metric.set(labels, 0);
    }
  }
  put(held.get("kubernetes_build_info"), options.build, 1);
  put(held.get("kubeproxy_build_info"), { ...options.own, mode: options.mode }, 1);
  for (const { name, stage, enabled } of options.gates) {
    put(held.get("kubernetes_feature_enabled"), { name, stage }, enabled ? 1 : 0);
  }
}

function combinations(names: readonly string[], families: readonly FamilyName[]): readonly Record<string, string>[] {
  let all: Record<string, string>[] = [{}];
  for (const name of names) {
    const values = name === "ip_family" ? families : (startLabels[name] ?? []);
    all = all.flatMap((labels) => values.map((value) => ({ ...labels, [name]: value })));
  }
  return all;
}

async function readSource(source: SampleSource, timeoutMs: number): Promise<readonly Sample[]> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<readonly Sample[]>((settle) => {
    timer = setTimeout(() => settle([]), timeoutMs);
  });
  try {
    return await Promise.race([(async () => await source())(), late]);
  } catch {
    return [];
  } finally {
    clearTimeout(timer);
  }
}
