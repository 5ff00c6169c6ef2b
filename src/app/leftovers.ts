/** After the first sync: what other modes left is removed, what is in the other variant of iptables is reported. */
import { CommandError } from "../host/command-error.ts";
import { findTool } from "../host/tool-path.ts";
import type { Context, ProxyMode } from "../model/context.ts";
import type { Log } from "../model/log.ts";
import { cleanUp, describeRemoved } from "./cleanup.ts";
import { foundChains, observeChains } from "./cleanup-chains.ts";
import { toolsOfHost } from "./cleanup-command.ts";
import { aimAt, type Tools } from "./cleanup-variant.ts";
import type { RunSteps } from "./modes.ts";

export interface LeftoverInputs {
  /** Of the mode that runs now; its rules must be in already, so that no packet finds none. */
  readonly contexts: readonly Context[];
  readonly run: RunSteps;
  readonly log: Log;
}

/** Never throws for what tools say: leftovers are no reason to stop. */
export async function removeLeftovers({ contexts, run, log }: LeftoverInputs): Promise<void> {
  const mode = contexts[0]?.mode;
  if (mode === undefined) return;
  try {
    const [main, ...others] = await toolsOfHost();
    const tools = main !== undefined && (await anyMark(main, contexts, mode, run)) ? [main] : [];
    const present = (tool: string) => findTool(tool) !== undefined;
    const { removed, remains } = await cleanUp({ contexts, tools, present, run, keep: mode });
    if (removed.size > 0) log.info("Removed what another mode left", { objects: describeRemoved(removed) });
    for (const line of remains) log.warn("Something of another mode is still there", { object: line });
    for (const other of others) await reportVariant(other, contexts, run, log);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    log.warn("Cannot look for what other modes left", { reason: error.message });
  }
}

// --- internal ---

/** Chains that tell a mode: asking for one costs a millisecond, reading all chains of a large table seconds. */
const marks: Readonly<Record<"iptables" | "ipvs" | "both", readonly (readonly [table: string, chain: string])[]>> = {
  iptables: [
    ["filter", "KUBE-EXTERNAL-SERVICES"],
    ["nat", "KUBE-PROXY-CANARY"],
  ],
  ipvs: [
    ["filter", "KUBE-IPVS-FILTER"],
    ["filter", "KUBE-NODE-PORT"],
    ["nat", "KUBE-LOAD-BALANCER"],
  ],
  both: [["nat", "KUBE-POSTROUTING"]],
};

async function anyMark(tools: Tools, contexts: readonly Context[], mode: ProxyMode, run: RunSteps): Promise<boolean> {
  const wanted = [
    ...(mode === "iptables" ? [] : marks.iptables),
    ...(mode === "ipvs" ? [] : marks.ipvs),
    ...(mode === "nftables" ? marks.both : []),
  ];
  for (const { family } of contexts)
    for (const [table, chain] of wanted) {
      const args = ["-w", "5", "-t", table, "-S", chain];
      const about = "look for leftovers of other modes";
      const step = aimAt({ kind: "exec", tool: family.iptables, args, mayFail: true, about }, family, tools);
      const [result] = step === undefined ? [] : await run([step]);
      if (result?.exitCode === 0) return true;
    }
  return false;
}

async function reportVariant(tools: Tools, contexts: readonly Context[], run: RunSteps, log: Log): Promise<void> {
  for (const context of contexts) {
    const found = foundChains(await observeChains(context, tools, run), undefined);
    if (found.length === 0) continue;
    const prefix = tools.prefix(context.family);
    log.warn("Rules of kube-proxy in the other variant of iptables take packets too; nobody keeps them up to date", {
      variant: prefix,
      chains: found.length,
      remedy: `${prefix}-save | grep -v KUBE- | ${prefix}-restore`,
    });
  }
}
