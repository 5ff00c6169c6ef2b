/** The running proxy: wires store, loop, monitor, conntrack, health check ports and Node changes together until it ends. */
import type { RunOptions } from "../cli/load.ts";
import { type Config, syncPeriods } from "../config/config.ts";
import { checkAddresses, checkTargets, createCheckPorts } from "../health/check-ports.ts";
import { judgeHealth } from "../health/state.ts";
import { AddressWatch, type LocalAddress } from "../host/addresses.ts";
import { ConntrackCleaner } from "../host/conntrack.ts";
import type { ObjectStore } from "../kube/object-store.ts";
import type { Context } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { Plan } from "../model/plan.ts";
import type { SyncReport } from "../model/report.ts";
import type { Step, StepResult } from "../model/step.ts";
import type { ChildProcesses } from "./child-processes.ts";
import { watchConfigFile } from "./config-changes.ts";
import { type ContextInputs, type Contexts, makeContexts } from "./contexts.ts";
import type { ProxyEvents } from "./events.ts";
import { Exit } from "./exit.ts";
import { type ForeignWatch, watchForeignChanges } from "./foreign-changes.ts";
import { removeLeftovers } from "./leftovers.ts";
import { listen } from "./listen.ts";
import { LocalhostNodePorts } from "./localhost-node-ports.ts";
import { localhostSamples } from "./localhost-samples.ts";
import type { RootLog } from "./log.ts";
import { SyncLoop } from "./loop.ts";
import { makeLoop, type RunSteps } from "./modes.ts";
import { ProxyNews } from "./news.ts";
import { nodeChange } from "./node-change.ts";
import { PortClashes } from "./port-clashes.ts";
import type { Servers } from "./servers.ts";
import type { Feed } from "./source.ts";
import type { ProxyStatus } from "./status.ts";
import { startNotifying } from "./supervisor.ts";

export interface ProxyInputs {
  readonly argv: readonly string[];
  readonly children: ChildProcesses;
  readonly config: Config;
  readonly options: RunOptions;
  readonly log: RootLog;
  /** Aborted: end, code 0. */
  readonly signal: AbortSignal;
  readonly run: RunSteps;
  readonly status: ProxyStatus;
  readonly servers: Servers;
  readonly store: ObjectStore;
  readonly feed: Feed;
  readonly inputs: ContextInputs;
  /** What `inputs` was made from. */
  readonly localAddresses: readonly LocalAddress[];
  readonly contexts: Contexts;
  readonly events: ProxyEvents;
}

/** Characters of input to the tools from which on monitors are paused: some 300 Services. */
const bulkText = 200_000;

/** Unexpected errors of one family in a row that end the process. */
const mostCrashes = 3;

/** Returns when the signal is aborted; throws Exit for everything else that ends the proxy. Rules stay in either case. */
export async function runUntilExit(inputs: ProxyInputs): Promise<void> {
  const proxy = new RunningProxy(inputs);
  try {
    await proxy.run();
  } finally {
    await proxy.stop();
  }
}

class RunningProxy {
  readonly #in: ProxyInputs;
  readonly #loop: SyncLoop;
  readonly #loops: readonly ReturnType<typeof makeLoop>[];
  readonly #cleaners: ReadonlyMap<FamilyName, ConntrackCleaner>;
  readonly #checks: ReadonlyMap<FamilyName, ReturnType<typeof createCheckPorts>>;
  readonly #news: ProxyNews;
  readonly #clashes: PortClashes;
  readonly #localhost: ReadonlyMap<FamilyName, LocalhostNodePorts>;
  readonly #ended = Promise.withResolvers<void>();
  readonly #closers: (() => void)[] = [];
  #inputs: ContextInputs;
  #ready = false;
  /** What tells of all changes to our rules; undefined: nothing does. */
  #watch: ForeignWatch | undefined;
  #monitors: ForeignWatch | undefined;

  constructor(inputs: ProxyInputs) {
    this.#in = inputs;
    this.#news = new ProxyNews(inputs);
    this.#clashes = new PortClashes(inputs);
    this.#inputs = inputs.inputs;
    const { config, log, status, servers, store } = inputs;
    const run: RunSteps = (steps) => this.#runUnwatched(steps);
    this.#loops = inputs.contexts.list.map((context) => makeLoop(context, { run, now: Date.now }));
    this.#cleaners = byFamily(
      this.#loops,
      (family) =>
        new ConntrackCleaner({
          family,
          log,
          onCleanUp: (result) => servers.recorder.conntrack(family, result.ms, result.deleted),
        }),
    );
    this.#checks = byFamily(this.#loops, () =>
      createCheckPorts({ open: listen, healthy: () => judgeHealth(status.healthFacts(), Date.now()).healthy, log }),
    );
    this.#localhost = this.#localhostPorts();
    this.#loop = new SyncLoop({
      families: this.#loops.map((loop) => ({ loop, tally: store.tally(loop.context.family.name) })),
      snapshot: () => store.snapshot(),
      log,
      ...syncPeriods(config),
      now: Date.now,
      watched: () => this.#watch?.running() === true,
      onQueued: (family, now) => {
        status.queued(family, now);
        servers.recorder.queued(family, now);
      },
      onSynced: (report, plan, applied, context) => this.#synced(report, plan, applied, context),
      onDrift: (family, found) => this.#news.drifted(family, found),
      onCrash: (family, error, crashes) => this.#crashed(family, error, crashes),
    });
  }

  /** Resolves when the signal is aborted, rejects with Exit. */
  async run(): Promise<void> {
    const { signal, feed, store, log } = this.#in;
    const stop = (): void => this.#ended.resolve();
    signal.addEventListener("abort", stop, { once: true });
    this.#closers.push(() => signal.removeEventListener("abort", stop));
    if (signal.aborted) return;
    await Promise.race([feed.ready, this.#ended.promise]);
    if (signal.aborted) return;
    const total = store.tally();
    this.#closers.push(store.onChange((change) => this.#changed(change, total)));
    this.#nodeChanged();
    this.#watchHost();
    this.#closers.push(watchConfigFile(this.#in, (exit) => this.#ended.reject(exit)));
    log.debug(1, "First lists are complete", { services: store.snapshot().services.size });
    this.#loop.start();
    await this.#ended.promise;
  }

  async stop(): Promise<void> {
    for (const close of this.#closers) close();
    for (const checks of this.#checks.values()) checks.close();
    for (const cleaner of this.#cleaners.values()) cleaner.close();
    for (const ports of this.#localhost.values()) ports.close();
    await this.#loop.stop();
  }

  // --- internal ---

  #changed(
    change: { readonly objects: boolean; readonly node: boolean },
    total: ReturnType<ObjectStore["tally"]>,
  ): void {
    const { services, endpoints } = total.take();
    if (services + endpoints > 0) {
      this.#in.servers.recorder.changed({ services, endpoints }, Date.now());
      this.#in.status.history.changed(services, endpoints, Date.now());
    }
    const { pending } = this.#in.status;
    this.#in.status.pending = { services: pending.services + services, endpoints: pending.endpoints + endpoints };
    if (change.node) this.#nodeChanged();
    if (change.objects) this.#loop.request();
  }

  #synced(report: SyncReport, plan: Plan | undefined, applied: Plan | undefined, context: Context): void {
    const { status, servers } = this.#in;
    const family = report.family;
    const before = status.families.get(family)?.report;
    status.synced(report, plan, context);
    if (report.ok) status.pending = { services: 0, endpoints: 0 };
    servers.recorder.synced(report);
    this.#news.synced(report, before, plan);
    if (applied === undefined || plan === undefined) return;
    this.#checks.get(family)?.update(checkTargets(plan), checkAddresses(context.family, context.nodePorts));
    this.#cleaners.get(family)?.after(plan, context, report.full);
    this.#localhost.get(family)?.follow(applied);
    // Node ports are the same in both families.
    if (context === this.#loops[0]?.context) this.#clashes.follow(applied);
    if (!this.#ready && [...status.families.values()].every((f) => f.report?.ok === true)) this.#becomeReady();
  }

  /** nftables mode with the gate: node ports on loopback are served by this process. */
  #localhostPorts(): ReadonlyMap<FamilyName, LocalhostNodePorts> {
    const { config, log, servers, run } = this.#in;
    const wanted = this.#loops.filter(({ context }) => config.mode === "nftables" && context.localhostNodePorts);
    const ports = wanted.map(({ context }) => [context.family.name, new LocalhostNodePorts({ context, log })] as const);
    for (const [i, [, one]] of ports.entries()) {
      const context = wanted[i]?.context;
      if (context !== undefined) servers.addSource(() => localhostSamples(context, one, run));
    }
    return new Map(ports);
  }

  #becomeReady(): void {
    this.#ready = true;
    this.#in.log.info("Rules are in place", { mode: this.#in.config.mode });
    void removeLeftovers({ contexts: this.#in.contexts.list, run: this.#in.run, log: this.#in.log });
    this.#closers.push(
      startNotifying(this.#in.log, () => judgeHealth(this.#in.status.healthFacts(), Date.now()).healthy),
    );
  }

  /** Last resort: start over from what the kernel holds; three times in a row end the process for its supervisor. */
  #crashed(family: FamilyName, error: unknown, crashes: number): void {
    const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
    this.#in.log.error("Unexpected error, starting over from what the kernel holds", {
      ipFamily: family,
      crashes,
      error: text,
    });
    if (crashes < mostCrashes) return;
    this.#ended.reject(
      new Exit(1, `${family}: ${crashes} unexpected errors in a row, giving up; the last was: ${String(error)}`),
    );
  }

  #nodeChanged(): void {
    const { store, status, log } = this.#in;
    const change = nodeChange(this.#inputs, store.node);
    status.nodeLeaving = store.node?.deleting === true || store.node?.toBeDeleted === true;
    status.nodeKnown = store.node !== undefined;
    if (change.exit !== undefined) this.#ended.reject(new Exit(1, change.exit));
    if (change.note !== undefined) log.info(change.note, { node: status.nodeName });
    if (change.inputs !== undefined) this.#replan(change.inputs);
  }

  /** New contexts where something in them is really different. */
  #replan(inputs: ContextInputs): void {
    this.#inputs = inputs;
    const made = makeContexts(inputs);
    for (const fault of made.faults) this.#ended.reject(new Exit(1, fault));
    let changed = false;
    for (const loop of this.#loops) {
      const context = made.list.find((c) => c.family === loop.context.family);
      if (context === undefined || Bun.deepEquals(context, loop.context)) continue;
      loop.context = context;
      changed = true;
    }
    if (changed) this.#loop.request();
  }

  /** The monitors need not read a bulk of our own changes; the look when they are back finds what others did meanwhile. */
  async #runUnwatched(steps: readonly Step[]): Promise<readonly StepResult[]> {
    const size = steps.reduce(
      (n, s) => n + (s.kind === "exec" ? (s.input ?? []).reduce((m, t) => m + t.length, 0) : 0),
      0,
    );
    const bulk = size > bulkText;
    if (bulk) this.#monitors?.pause();
    try {
      return await this.#in.run(steps);
    } finally {
      if (bulk) this.#monitors?.resume();
    }
  }

  #watchHost(): void {
    const { config, log } = this.#in;
    const onChange = (list: readonly LocalAddress[]): void =>
      this.#replan({ ...this.#inputs, localAddresses: list.map((a) => a.ip) });
    const addresses = new AddressWatch(this.#in.localAddresses, { log, onChange });
    this.#closers.push(() => addresses.close());
    const watch = watchForeignChanges({
      mode: config.mode,
      log,
      children: this.#in.children,
      repair: (family, drift, by) => this.#loop.repair(family, drift, by),
      look: (by) => this.#loop.inspect(by),
    });
    this.#monitors = watch;
    this.#closers.push(() => watch.close());
    // There are no events of iptables-legacy, sets and virtual servers.
    const { iptables } = this.#inputs.facts;
    if (config.mode === "nftables" || (config.mode === "iptables" && iptables === "nft")) this.#watch = watch;
  }
}

function byFamily<T>(
  loops: readonly ReturnType<typeof makeLoop>[],
  make: (family: FamilyName) => T,
): ReadonlyMap<FamilyName, T> {
  return new Map(loops.map(({ context }) => [context.family.name, make(context.family.name)]));
}
