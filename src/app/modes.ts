/** The three backends behind one face: make a family's loop, probe the host, run the privileged set-up. */
import type { Backend } from "../backends/backend.ts";
import { iptables } from "../backends/iptables/index.ts";
import { ipvs } from "../backends/ipvs/index.ts";
import { probe as probeIpvs } from "../backends/ipvs/probe.ts";
import { nftables } from "../backends/nftables/index.ts";
import { probeCompact, probe as probeNftables } from "../backends/nftables/probe.ts";
import type { Context, ProxyMode } from "../model/context.ts";
import type { Step, StepResult } from "../model/step.ts";
import type { FamilyLoop } from "./loop.ts";
import { readKernel } from "./read.ts";
import { Reconciler } from "./reconciler.ts";

export type RunSteps = (steps: readonly Step[]) => Promise<readonly StepResult[]>;

export interface ModeRun {
  readonly run: RunSteps;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

export interface Probed {
  /** One line each: the mode cannot run here. */
  readonly faults: readonly string[];
  readonly warnings: readonly string[];
}

/** A reconciler of the context's mode and family. */
export function makeLoop(context: Context, options: ModeRun): FamilyLoop {
  switch (context.mode) {
    case "iptables":
      return loopOf(iptables, context, options);
    case "ipvs":
      return loopOf(ipvs, context, options);
    case "nftables":
      return loopOf(nftables, context, options);
  }
}

/** The backend of a mode, with its types left open: for setup and cleanup. */
export function backendOf(mode: ProxyMode): Backend<unknown, unknown> {
  return { iptables, ipvs, nftables }[mode] as Backend<unknown, unknown>;
}

/** Whether tools and kernel have what the mode needs in this family. */
export async function probeMode(
  context: Context,
  run: RunSteps,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Probed> {
  switch (context.mode) {
    case "iptables":
      return { faults: context.facts.iptables === "none" ? [noIptables] : [], warnings: [] };
    case "nftables": {
      const skipKernelVersionCheck = (env["KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"] ?? "") !== "";
      const reading = probeNftables(context, { skipKernelVersionCheck });
      return { faults: (await readKernel(reading, run)).faults, warnings: [] };
    }
    case "ipvs": {
      const reading = probeIpvs(context);
      const { errors, warnings } = await readKernel(reading, run);
      return { faults: errors, warnings };
    }
  }
}

/** Why the compact layout that a context asks for cannot be used here; undefined: it can, or nobody asked. */
export async function probeLayout(context: Context, run: RunSteps): Promise<string | undefined> {
  if (context.mode !== "nftables" || !context.gates.nftablesCompact) return undefined;
  const reading = probeCompact(context);
  return readKernel(reading, run);
}

// --- internal ---

const noIptables = 'iptables is not installed: install the package "iptables"';

function loopOf<S, O>(backend: Backend<S, O>, context: Context, options: ModeRun): FamilyLoop {
  return new Reconciler({ backend, context, ...options });
}
