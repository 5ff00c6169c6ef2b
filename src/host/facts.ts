/** What this machine can do, found out once at start: variant of iptables, kernel, accounting, conntrack leniency, CPUs. */
import { readFileSync } from "node:fs";
import { release } from "node:os";
import type { HostFacts } from "../model/context.ts";
import { type RunOptions, runSteps } from "./run.ts";
import { readSysctl } from "./sysctl.ts";

export interface FactsOptions extends RunOptions {
  /** Find out about nfacct too (it needs a counter and a scratch chain); only iptables mode asks. */
  readonly wantNfacct: boolean;
  /** Name of the counter to try with; it is left in place, the rules refer to it. */
  readonly nfacctCounter?: string;
  /** Default: what the kernel says. */
  readonly kernelRelease?: string;
}

/** Read after the conntrack sysctls were set: `tcpBeLiberal` is the value then in force. */
export async function hostFacts(options: FactsOptions): Promise<HostFacts> {
  const iptables = await iptablesVersion(options);
  const kernel = parseKernelRelease(options.kernelRelease ?? release());
  return {
    iptables: iptables?.variant ?? "none",
    // --random-fully: iptables 1.6.2, kernel 3.13. nft's fully-random is as old as nft's masquerade.
    randomFully: (iptables === undefined || atLeast(iptables.version, [1, 6, 2])) && atLeast(kernel, [3, 13]),
    nfacct: options.wantNfacct && iptables !== undefined && (await nfacctWorks(options)),
    tcpBeLiberal: (readSysctl("net/netfilter/nf_conntrack_tcp_be_liberal", options.sysctlRoot) ?? 0) !== 0,
    kernel,
  };
}

export interface IptablesVersion {
  readonly variant: "nft" | "legacy";
  readonly version: readonly number[];
}

/** Undefined when there is no iptables. */
export async function iptablesVersion(options: RunOptions): Promise<IptablesVersion | undefined> {
  const step = { kind: "exec", tool: "iptables", args: ["--version"], mayFail: true, about: "which iptables" } as const;
  const [result] = await runSteps([step], options);
  return result?.exitCode === 0 ? parseIptablesVersion(result.stdout) : undefined;
}

/** `iptables v1.8.9 (nf_tables)`, `iptables v1.8.9 (legacy)`, `iptables v1.6.1` (older than the choice, hence legacy). */
export function parseIptablesVersion(text: string): IptablesVersion | undefined {
  const version = /\bv(\d+(?:\.\d+)*)/.exec(text)?.[1];
  if (version === undefined) return undefined;
  return { variant: text.includes("(nf_tables)") ? "nft" : "legacy", version: version.split(".").map(Number) };
}

/** `6.1.0-18-amd64` → [6, 1]. */
export function parseKernelRelease(text: string): readonly [number, number] {
  const match = /^(\d+)\.(\d+)/.exec(text);
  return [Number(match?.[1] ?? 0), Number(match?.[2] ?? 0)];
}

/** Number of CPUs that are online, from text such as `0-3,8,10-11`; 0 when there is none in it. */
export function parseCpuList(text: string): number {
  let count = 0;
  for (const part of text.trim().split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (match !== null) count += Number(match[2] ?? match[1]) - Number(match[1]) + 1;
  }
  return count;
}

/** CPUs online on the host. A container's CPU limit must not count: the conntrack table is the host's. */
export function onlineCpus(path = "/sys/devices/system/cpu/online"): number {
  try {
    return parseCpuList(readFileSync(path, "utf8")) || navigator.hardwareConcurrency;
  } catch {
    return navigator.hardwareConcurrency;
  }
}

// --- internal ---

const probeChain = "KUBE-PROXY-PROBE";

/**
 * Whether a rule with `-m nfacct` is accepted. Only a real rule tells: one that is made and removed in the same
 * restore never reaches the kernel (measured, iptables 1.8.9, both variants).
 */
async function nfacctWorks(options: FactsOptions): Promise<boolean> {
  const counter = options.nfacctCounter ?? "localhost_nps_accepted_pkts";
  const exec = (tool: string, args: readonly string[], input?: string) =>
    ({ kind: "exec", tool, args, mayFail: true, about: "nfacct probe", ...(input && { input: [input] }) }) as const;
  const restore = (rules: string) => exec("iptables-restore", ["--noflush", "-w", "5"], `*filter\n${rules}\nCOMMIT\n`);
  const make = `:${probeChain} - [0:0]\n-A ${probeChain} -m nfacct --nfacct-name ${counter}`;
  try {
    // `add` fails when the counter exists; whether it does shows in the next step.
    const [, , made] = await runSteps(
      [exec("nfacct", ["add", counter]), exec("nfacct", ["get", counter]), restore(make)],
      options,
    );
    await runSteps([restore(`:${probeChain} - [0:0]\n-X ${probeChain}`)], options);
    return made?.exitCode === 0;
  } catch {
    return false;
  }
}

function atLeast(version: readonly number[], wanted: readonly number[]): boolean {
  for (const [i, part] of wanted.entries()) {
    const have = version[i] ?? 0;
    if (have !== part) return have > part;
  }
  return true;
}
