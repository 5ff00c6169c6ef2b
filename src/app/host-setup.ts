/** What happens to the host before the first rule: sysctls, probes, facts; and nothing else for --init-only. */
import type { Config } from "../config/config.ts";
import { CommandError } from "../host/command-error.ts";
import { applyConntrackSettings } from "../host/conntrack-limits.ts";
import { hostFacts } from "../host/facts.ts";
import { probeFamily } from "../host/probe.ts";
import { setOomScoreAdj } from "../host/process.ts";
import type { Context, HostFacts } from "../model/context.ts";
import { type FamilyName, families } from "../model/family.ts";
import type { Log } from "../model/log.ts";
import type { ContextInputs } from "./contexts.ts";
import { Exit } from "./exit.ts";
import { backendOf, probeLayout, probeMode, type RunSteps } from "./modes.ts";

/** Families that kernel and tools can do. IPv4 first. */
export async function supportedFamilies(config: Config, log: Log): Promise<readonly FamilyName[]> {
  const found: FamilyName[] = [];
  const reasons: string[] = [];
  for (const name of ["IPv4", "IPv6"] as const) {
    const support = await probeFamily(config.mode, families[name]);
    if (support.ok) found.push(name);
    else {
      reasons.push(support.reason);
      log.info("No support for one IP family on this host", { ipFamily: name, reason: support.reason });
    }
  }
  if (found.length === 0) throw new Exit(1, `${config.mode} mode cannot run here: ${[...new Set(reasons)].join("; ")}`);
  return found;
}

/** Conntrack sysctls and the OOM score. Throws Exit when a value is below what was asked for and cannot be raised. */
export async function tuneHost(config: Config, log: Log): Promise<readonly string[]> {
  const problem = setOomScoreAdj(config.oomScoreAdj);
  if (problem !== undefined)
    log.warn("oom_score_adj not set, going on", { value: config.oomScoreAdj, reason: problem });
  const { conntrack } = config;
  const seconds = (ms: number): number => ms / 1000;
  try {
    return await applyConntrackSettings(
      {
        ...conntrack,
        tcpEstablishedTimeout: seconds(conntrack.tcpEstablishedTimeout),
        tcpCloseWaitTimeout: seconds(conntrack.tcpCloseWaitTimeout),
        udpTimeout: seconds(conntrack.udpTimeout),
        udpStreamTimeout: seconds(conntrack.udpStreamTimeout),
      },
      { log },
    );
  } catch (error) {
    throw asExit(error);
  }
}

/** Read after `tuneHost`: the INVALID drop depends on a sysctl that it may set. */
export function factsFor(config: Config): Promise<HostFacts> {
  return hostFacts({ wantNfacct: config.mode === "iptables" });
}

/** Probes the mode and runs the backend's privileged set-up in every family. Throws Exit naming all that is missing. */
export async function prepareMode(contexts: readonly Context[], run: RunSteps, log: Log): Promise<void> {
  const faults: string[] = [];
  for (const context of contexts) {
    const probed = await probeMode(context, run, process.env);
    faults.push(...probed.faults);
    for (const warning of probed.warnings) log.warn(warning, { ipFamily: context.family.name });
  }
  const mode = contexts[0]?.mode;
  if (mode === undefined || faults.length > 0)
    throw new Exit(1, `${mode} mode cannot run here: ${[...new Set(faults)].join("; ")}`);
  try {
    for (const context of contexts) await run(backendOf(mode).setup(context));
  } catch (error) {
    throw asExit(error);
  }
}

/** The inputs without the compact layout where nft or the kernel does not take it: the standard one works the same. */
export async function withUsableLayout(
  inputs: ContextInputs,
  contexts: readonly Context[],
  run: RunSteps,
  log: Log,
): Promise<ContextInputs> {
  for (const context of contexts) {
    const reason = await probeLayout(context, run);
    if (reason === undefined) continue;
    log.warn("KubeProxyNFTablesCompact cannot be used here: the standard layout is written", {
      ipFamily: context.family.name,
      reason,
    });
    return { ...inputs, gates: new Set([...inputs.gates].filter((gate) => gate !== "KubeProxyNFTablesCompact")) };
  }
  return inputs;
}

// --- internal ---

function asExit(error: unknown): unknown {
  return error instanceof CommandError ? new Exit(1, error.message, { cause: error }) : error;
}
