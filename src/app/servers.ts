/** Starts the health and the metrics server of a configuration. */
import { setTimeout as sleepless } from "node:timers";
import type { RunOptions } from "../cli/load.ts";
import { buildDate, commit, version } from "../cli/version.ts";
import { parseIPPort } from "../config/address.ts";
import type { Config } from "../config/config.ts";
import { allGates } from "../config/feature-gates.ts";
import { configObject } from "../config/print.ts";
import { healthHandler } from "../health/server.ts";
import { processSource, processStartTime } from "../metrics/process-source.ts";
import { createProfiler } from "../metrics/profiling.ts";
import { createRecorder, type Recorder } from "../metrics/record.ts";
import { createMetrics, type Metrics, type SampleSource } from "../metrics/registry.ts";
import { metricsHandler } from "../metrics/server.ts";
import { appSource, nfacctSource } from "../metrics/sources.ts";
import { proxyLines } from "../metrics/status-pages.ts";
import type { FamilyName } from "../model/family.ts";
import type { HttpHandler } from "../model/http-answer.ts";
import { Exit } from "./exit.ts";
import { type KeptListener, keepListening } from "./listen.ts";
import type { RootLog } from "./log.ts";
import type { ProxyStatus } from "./status.ts";
import { type StatusJson, statusJson, statusJsonRoute } from "./status-json.ts";
import { statusPageRoute } from "./status-page.ts";

export interface ServerOptions {
  readonly config: Config;
  readonly options: RunOptions;
  readonly log: RootLog;
  readonly status: ProxyStatus;
  readonly families: readonly FamilyName[];
  /** Output of `nfacct list`. */
  readonly nfacct: () => Promise<string>;
  /** Milliseconds since the epoch of the last answer of the API server; undefined: none yet, or no API server. */
  readonly lastContact: () => number | undefined;
  /** URL of the API server or the folder of manifests. */
  readonly source: () => string;
}

export interface Servers {
  readonly recorder: Recorder;
  /** Asked at each scrape from now on. */
  addSource(source: SampleSource): void;
  readonly metrics: Metrics;
  close(): void;
}

const retryMs = 1_000;

/** Throws Exit when an address cannot be had and bindAddressHardFail is set. */
export function startServers(inputs: ServerOptions): Servers {
  const { config, log, status } = inputs;
  const sources = metricSources(inputs);
  const metrics = makeMetrics(inputs, sources);
  const recorder = createRecorder(metrics);
  const page = statusPageRoute(status);
  const listeners = [
    serve(
      inputs,
      "healthzBindAddress",
      config.healthzBindAddress,
      healthHandler({
        facts: () => status.healthFacts(),
        now: Date.now,
        answered: recorder.answered,
      }),
    ),
    serve(
      inputs,
      "metricsBindAddress",
      config.metricsBindAddress,
      metricsHandler({
        metrics,
        config: () => configObject(config),
        flags: () => inputs.options.flagValues,
        status: () => ({
          startedAt: status.startedAt,
          now: Date.now(),
          version: version.slice(1),
          runtime: Bun.version,
          lines: proxyLines(status.facts(config.mode, inputs.source(), inputs.lastContact()), Date.now()),
        }),
        processStart: processStartTime(),
        setVerbosity: (text) => setVerbosity(log, text),
        profiler: config.enableProfiling ? createProfiler() : undefined,
        routes: (path, request) => page(path, request) ?? statusJsonRoute(path, request, () => statusFacts(inputs)),
      }),
    ),
  ];
  const close = (): void => {
    for (const listener of listeners) listener?.close();
  };
  return { recorder, metrics, addSource: (source) => sources.push(source), close };
}

// --- internal ---

function statusFacts({ config, status, source, lastContact }: ServerOptions): StatusJson {
  return statusJson({
    status,
    mode: config.mode,
    version,
    commit,
    runtime: `bun ${Bun.version}`,
    pid: process.pid,
    source: source(),
    lastContact: lastContact(),
    now: Date.now(),
  });
}

function makeMetrics({ config, families }: ServerOptions, sources: readonly SampleSource[]): Metrics {
  const [, major = "", minor = ""] = /^v(\d+)\.(\d+)/.exec(version) ?? [];
  return createMetrics({
    mode: config.mode,
    families,
    gates: allGates(config),
    build: {
      major,
      minor,
      git_version: version,
      git_commit: commit,
      git_tree_state: commit.endsWith("-dirty") ? "dirty" : "clean",
      build_date: buildDate,
      go_version: "",
      compiler: `bun ${Bun.version}`,
      platform: `${process.platform}/${process.arch === "x64" ? "amd64" : process.arch}`,
    },
    own: { version, bun: Bun.version, revision: commit },
    sources,
  });
}

function metricSources(inputs: ServerOptions): SampleSource[] {
  const { config, status } = inputs;
  return [
    processSource(),
    appSource(() => ({ now: Date.now(), lastContact: inputs.lastContact(), nodeKnown: status.nodeKnown })),
    ...(config.mode === "iptables" ? [nfacctSource(inputs.nfacct)] : []),
  ];
}

function serve(inputs: ServerOptions, field: string, address: string, handler: HttpHandler): KeptListener | undefined {
  if (address === "") return undefined;
  const at = parseIPPort(address);
  if (at === undefined) throw new Exit(1, `${field}: ${address} is not of the form IP:port`);
  const schedule = (ms: number, task: () => void): (() => void) => {
    const timer = sleepless(task, ms);
    return () => clearTimeout(timer);
  };
  try {
    const { bindAddressHardFail: hardFail } = inputs.config;
    return keepListening({
      field,
      address: at.ip,
      port: at.port,
      handler,
      hardFail,
      retryMs,
      log: inputs.log,
      schedule,
    });
  } catch (error) {
    throw new Exit(1, error instanceof Error ? error.message : String(error), { cause: error });
  }
}

function setVerbosity(log: RootLog, text: string): string | undefined {
  if (!/^-?\d+$/.test(text)) return "not a whole number";
  log.setVerbosity(Number(text));
  log.info("Verbosity changed", { v: Number(text) });
  return undefined;
}
