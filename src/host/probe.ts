/** Whether this machine can run a mode in a family, asked of the tools and the kernel without leaving anything behind. */
import { existsSync, readFileSync } from "node:fs";
import type { ProxyMode } from "../model/context.ts";
import type { Family } from "../model/family.ts";
import { CommandError } from "./command-error.ts";
import { type RunOptions, runSteps } from "./run.ts";
import { readSysctl } from "./sysctl.ts";

export type Support = { readonly ok: true } | { readonly ok: false /** One line. */; readonly reason: string };

export interface ProbeOptions extends RunOptions {
  /** Default /proc. */
  readonly procRoot?: string;
}

/** Whether a family can be done at all: the kernel's side, and that of iptables where it is used. */
export async function probeFamily(mode: ProxyMode, family: Family, options: ProbeOptions = {}): Promise<Support> {
  const kernel = kernelSupport(family, options);
  if (!kernel.ok) return kernel;
  // nft and its expressions are asked for by the backend's own probe, which names all that is missing.
  return mode === "nftables" ? kernel : probeIptables(family, options);
}

/** IPv6 counts as absent when the kernel has none, or when it is switched off and no interface has an address. */
export function kernelSupport(family: Family, options: ProbeOptions = {}): Support {
  if (family.name === "IPv4") return { ok: true };
  const proc = options.procRoot ?? "/proc";
  if (!existsSync(`${proc}/net/if_inet6`)) return { ok: false, reason: "the kernel has no IPv6" };
  const disabled = readSysctl("net/ipv6/conf/all/disable_ipv6", options.sysctlRoot ?? `${proc}/sys`) === 1;
  if (!disabled || readFileSync(`${proc}/net/if_inet6`, "utf8").trim() !== "") return { ok: true };
  return { ok: false, reason: "IPv6 is switched off (net.ipv6.conf.all.disable_ipv6=1)" };
}

// --- internal ---

async function probeIptables(family: Family, options: ProbeOptions): Promise<Support> {
  const args = ["-w", "5", "-t", "nat", "-S", "POSTROUTING"];
  try {
    await runSteps([{ kind: "exec", tool: family.iptables, args, about: `${family.name} probe` }], options);
    return { ok: true };
  } catch (error) {
    return failed(error);
  }
}

function failed(error: unknown): Support {
  if (error instanceof CommandError) return { ok: false, reason: error.message };
  throw error;
}
