/** The composition root: from a configuration to a running proxy, and down again. */
import type { RunOptions } from "../cli/load.ts";
import { version } from "../cli/version.ts";
import { type Config, syncPeriods } from "../config/config.ts";
import type { Warning } from "../config/config-error.ts";
import { gateOn } from "../config/feature-gates.ts";
import { type LocalAddress, localAddresses } from "../host/addresses.ts";
import { runSteps } from "../host/run.ts";
import { ObjectStore } from "../kube/object-store.ts";
import type { Transport } from "../kube/transport.ts";
import type { NodeInfo } from "../model/node.ts";
import type { Step } from "../model/step.ts";
import { ChildProcesses } from "./child-processes.ts";
import { type ContextInputs, makeContexts, nodeIdentity, ruleGates } from "./contexts.ts";
import { createEvents, type ProxyEvents } from "./events.ts";
import { Exit } from "./exit.ts";
import { factsFor, prepareMode, supportedFamilies, tuneHost, withUsableLayout } from "./host-setup.ts";
import type { RootLog } from "./log.ts";
import { nodeNameOf, startNode } from "./node-start.ts";
import { runUntilExit } from "./proxy.ts";
import { startServers } from "./servers.ts";
import { type Feed, feedFromApi, feedFromManifests, openTransport } from "./source.ts";
import { ProxyStatus } from "./status.ts";

export interface Loaded {
  /** The command line, to read the file again when it changes. */
  readonly argv: readonly string[];
  readonly options: RunOptions;
  readonly config: Config;
  readonly warnings: readonly Warning[];
}

/** Runs until the signal is aborted (rules stay) or something ends it; throws Exit with the code and the last line. */
export async function runProxy(
  { argv, options, config, warnings }: Loaded,
  log: RootLog,
  signal: AbortSignal,
): Promise<void> {
  log.info("Starting kube-proxy", { version, mode: config.mode, bun: Bun.version });
  for (const warning of warnings) log.warn(warning.message);
  warnAboutMode(options, config, log);
  const nodeName = nodeNameOf(config);
  const children = new ChildProcesses();
  const run = (steps: readonly Step[]) =>
    children.during(steps, () => runSteps(steps, { log, onStart: (pid) => children.add(pid) }));
  const supported = await supportedFamilies(config, log);
  if (options.initOnly) return initOnly(config, nodeName, supported, run, log);

  const status = new ProxyStatus(nodeName, supported, syncPeriods(config).syncPeriod, Date.now());
  let feed: Feed | undefined;
  let transport: Transport | undefined;
  const servers = startServers({
    config,
    options,
    log,
    status,
    families: supported,
    nfacct: async () =>
      (await run([{ kind: "exec", tool: "nfacct", args: ["list"], about: "packet counters" }]))[0]?.stdout ?? "",
    lastContact: () => feed?.lastContact() ?? transport?.lastContact,
    source: () => options.manifests.join(", ") || (transport?.server ?? ""),
  });
  try {
    const store = new ObjectStore(nodeName);
    let node: NodeInfo | undefined;
    if (options.manifests.length > 0) {
      feed = feedFromManifests(options.manifests, store, log, signal);
      await feed.ready;
      node = store.node;
    } else {
      transport = openTransport(config, options, log, servers.recorder.request);
      node = await startNode({ config, nodeName, transport, log, signal });
    }
    if (signal.aborted) return;
    status.nodeKnown = node !== undefined;
    const events: ProxyEvents = createEvents(transport, nodeName, log, signal);
    const tuning = await tuneHost(config, log);
    for (const problem of tuning) events.warn("ConntrackSettings", problem);
    const addresses = await localAddresses();
    const asked = await contextInputs(config, nodeName, node, supported, addresses);
    const first = makeContexts(asked);
    if (first.faults.length > 0) throw new Exit(1, first.faults.join("; "));
    for (const warning of first.warnings) log.warn(warning);
    await prepareMode(first.list, run, log);
    const inputs = await withUsableLayout(asked, first.list, run, log);
    const contexts = inputs === asked ? first : makeContexts(inputs);
    events.started(options.modeSet, config.mode);
    feed ??= transport === undefined ? feed : feedFromApi(transport, store, nodeName, config, log, signal);
    if (feed === undefined) throw new Error("no source of objects");
    await runUntilExit({
      argv,
      children,
      config,
      options,
      log,
      signal,
      run,
      status,
      servers,
      store,
      feed,
      inputs,
      localAddresses: addresses,
      contexts,
      events,
    });
  } finally {
    servers.close();
  }
}

// --- internal ---

function warnAboutMode(options: RunOptions, config: Config, log: RootLog): void {
  if (!options.modeSet)
    log.warn(
      "No proxy mode is set: iptables is used. The default changes to nftables in Kubernetes 1.40; set mode to choose",
    );
  if (config.mode !== "ipvs") return;
  if (!gateOn(config, "KubeProxyIPVS"))
    throw new Exit(
      1,
      "mode: ipvs is switched off by the feature gate KubeProxyIPVS=false; choose nftables or iptables, or remove the gate",
    );
  log.warn(
    "ipvs mode is deprecated: it is off by default from Kubernetes 1.40 and gone in 1.43; nftables takes its place",
  );
}

async function initOnly(
  config: Config,
  nodeName: string,
  supported: ContextInputs["supported"],
  run: (steps: readonly Step[]) => ReturnType<typeof runSteps>,
  log: RootLog,
): Promise<void> {
  await tuneHost(config, log);
  const contexts = makeContexts(await contextInputs(config, nodeName, undefined, supported, await localAddresses()));
  await prepareMode(contexts.list, run, log);
  log.info("Set-up done, exiting because of --init-only");
}

async function contextInputs(
  config: Config,
  nodeName: string,
  node: NodeInfo | undefined,
  supported: ContextInputs["supported"],
  addresses: readonly LocalAddress[],
): Promise<ContextInputs> {
  return {
    config,
    nodeName,
    node,
    identity: nodeIdentity(node, config.bindAddress),
    supported,
    facts: await factsFor(config),
    localAddresses: addresses.map((a) => a.ip),
    gates: ruleGates(config),
  };
}
