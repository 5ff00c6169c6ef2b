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

/** The kernel's side and the tools' side of one family. */
export async function probeFamily(mode: ProxyMode, family: Family, options: ProbeOptions = {}): Promise<Support> {
  const kernel = kernelSupport(family, options);
  if (!kernel.ok) return kernel;
  return mode === "nftables" ? probeNftables(family, options) : probeIptables(family, options);
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

/** What the rules of nftables mode need, each with the kernel option that brings it. */
function expressions(family: Family): readonly { readonly rule: string; readonly option: string }[] {
  const { nft, bits } = family;
  return [
    { rule: "fib daddr type local accept", option: `nft fib (CONFIG_NFT_FIB_IPV${bits === 32 ? 4 : 6})` },
    { rule: "ct state new ct mark 0 accept", option: "nft ct (CONFIG_NFT_CT)" },
    { rule: "numgen random mod 2 vmap { 0 : accept, 1 : drop }", option: "nft numgen (CONFIG_NFT_NUMGEN)" },
    { rule: "meta mark set meta mark or 0x1", option: "nft meta (CONFIG_NF_TABLES)" },
    {
      rule: `${nft} daddr . meta l4proto . th dport { ${family.unspecified} . tcp . 80 } accept`,
      option: "nft sets (CONFIG_NF_TABLES)",
    },
    { rule: "reject", option: `nft reject (CONFIG_NFT_REJECT_IPV${bits === 32 ? 4 : 6})` },
    { rule: "masquerade fully-random", option: "nft masquerade (CONFIG_NFT_MASQ)" },
  ];
}

/**
 * `nft --check` sends the batch to the kernel and lets it abort. One call when all is well; after a failure one per
 * expression to name the culprit. Our table's name is not used: a chain of another type may be in it.
 */
async function probeNftables(family: Family, options: ProbeOptions): Promise<Support> {
  const all = expressions(family);
  try {
    await check(
      family,
      all.map((expression) => expression.rule),
      options,
    );
    return { ok: true };
  } catch (error) {
    const missing: string[] = [];
    for (const { rule, option } of all) {
      try {
        await check(family, [rule], options);
      } catch {
        missing.push(option);
      }
    }
    if (missing.length === 0 || missing.length === all.length) return failed(error);
    return { ok: false, reason: `the kernel or nft lacks ${missing.join(", ")}` };
  }
}

function check(family: Family, rules: readonly string[], options: ProbeOptions): Promise<unknown> {
  const table = `${family.nft} kube-proxy-probe`;
  const masquerades = rules.some((rule) => rule.startsWith("masquerade"));
  const lines = [
    `add table ${table}`,
    `add chain ${table} filter { type filter hook forward priority 0; }`,
    ...(masquerades ? [`add chain ${table} nat { type nat hook postrouting priority 100; }`] : []),
    ...rules.map((rule) => `add rule ${table} ${rule.startsWith("masquerade") ? "nat" : "filter"} ${rule}`),
  ];
  const input = [`${lines.join("\n")}\n`];
  const step = { kind: "exec", tool: "nft", args: ["--check", "-f", "-"], input, about: "nftables probe" } as const;
  return runSteps([step], options);
}

function failed(error: unknown): Support {
  if (error instanceof CommandError) return { ok: false, reason: error.message };
  throw error;
}
