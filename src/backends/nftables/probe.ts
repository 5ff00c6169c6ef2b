/** Whether nft and this kernel have everything that nftables mode needs: asked once at start, leaving nothing behind. */
import type { Context } from "../../model/context.ts";
import type { Family } from "../../model/family.ts";
import type { Step, StepResult } from "../../model/step.ts";
import * as rule from "../../tools/nft-rule.ts";
import type { Reading } from "../backend.ts";

export interface ProbeResult {
  readonly ok: boolean;
  /** nft's version, e.g. `1.0.6`; empty: unknown. */
  readonly version: string;
  /** One line each: what is missing and what brings it. */
  readonly faults: readonly string[];
}

export interface ProbeOptions {
  /** KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK is set to anything but the empty text. */
  readonly skipKernelVersionCheck: boolean;
}

const MIN_NFT = [1, 0, 1] as const;
const MIN_KERNEL = [5, 13] as const;
/** Not ours: a probe must not meet objects of a running proxy. `--check` never commits it. */
const SCRATCH = "kube-proxy-probe";

/**
 * Whether nft and this kernel take the compact layout: a map with integers in its keys, its elements and its use. The
 * fault is one line; undefined: they do.
 */
export function probeCompact({ family }: Context): Reading<string | undefined> {
  const input = printProbe(family, compactFeatures(family));
  return {
    steps: [checkStep(family, ["--check", "-f", "-"], input)],
    parse: ([check]) =>
      check?.exitCode === 0
        ? undefined
        : `nft or the kernel does not take maps keyed by random numbers: ${firstLine(check?.stderr ?? "no answer")}`,
  };
}

/** Reads nft's version and has the kernel check, in one transaction that is always dropped, one line for each feature. */
export function probe(context: Context, options: ProbeOptions): Reading<ProbeResult> {
  const features = featuresOf(context.family);
  const input = printProbe(context.family, features);
  const { family } = context;
  return {
    steps: [checkStep(family, ["--version"]), checkStep(family, ["--check", "-f", "-"], input)],
    parse: ([version, check]) => {
      const faults = [...versionFaults(version), ...kernelFaults(context, options)];
      if (version?.exitCode === 0) faults.push(...featureFaults(features, check));
      return { ok: faults.length === 0, version: versionOf(version), faults };
    },
  };
}

// --- internal ---

function checkStep(family: Family, args: readonly string[], text?: string): Step {
  return {
    kind: "exec",
    tool: "nft",
    args,
    mayFail: true,
    about: `probe for nftables mode, ${family.name}`,
    ...(text === undefined ? {} : { input: [text] }),
  };
}

interface Feature {
  readonly what: string;
  /** Kernel option, or what else brings it. */
  readonly option: string;
  /** One line of nft input, with `TABLE` for the scratch table. */
  readonly line: string;
}

function featuresOf(family: Family): readonly Feature[] {
  const { nft, nftType } = family;
  const inFilter = (expression: string): string => `add rule TABLE filter ${expression}`;
  const inNat = (expression: string): string => `add rule TABLE nat ${expression}`;
  const four = family.name === "IPv4";
  const address = four ? "192.0.2.1" : "2001:db8::1";
  const other = four ? "192.0.2.2" : "2001:db8::2";
  const targets = [
    { ip: address, port: 80 },
    { ip: other, port: 80 },
  ];
  const fib = `CONFIG_NFT_FIB and CONFIG_NFT_FIB_IPV${four ? 4 : 6}`;
  return [
    { what: "fib lookups", option: fib, line: inFilter("fib daddr type local accept") },
    { what: "connection tracking states", option: "CONFIG_NFT_CT", line: inFilter("ct state new accept") },
    {
      what: "numgen with verdict maps",
      option: "CONFIG_NFT_NUMGEN",
      line: inFilter("numgen random mod 2 vmap { 0 : accept, 1 : drop }"),
    },
    {
      what: "concatenated keys in verdict maps",
      option: "kernel 5.6 or newer",
      line: inFilter(rule.lookUpFrontend(family, "frontends")),
    },
    {
      what: "sets filled by packets, with timeouts",
      option: "CONFIG_NF_TABLES with dynamic sets",
      line: inFilter(rule.remember(family, "affinity")),
    },
    { what: "mark arithmetic", option: "CONFIG_NF_TABLES, kernel 4.10 or newer", line: inFilter(rule.setMark(0x4000)) },
    {
      what: "reject",
      option: `CONFIG_NFT_REJECT and CONFIG_NFT_REJECT_IPV${four ? 4 : 6}`,
      line: inFilter("reject"),
    },
    {
      what: "dnat to an address and port from a map",
      option: "CONFIG_NFT_NAT and CONFIG_NF_NAT, kernel 5.13 or newer",
      line: inNat(rule.dnatToOneOf(family, "tcp", targets)),
    },
    {
      what: "masquerade with fully-random ports",
      option: "CONFIG_NFT_MASQ",
      line: `add rule TABLE post masquerade fully-random`,
    },
    {
      what: "comments on map elements",
      option: "nft 1.0.1 and kernel 4.1 or newer",
      line: `add element TABLE frontends { ${address} . tcp . 80 comment "probe" : drop }`,
    },
    {
      what: "comments on sets",
      option: "kernel 5.10 or newer",
      line: `add set TABLE commented { type ${nftType} ; comment "probe" ; }`,
    },
  ].map((feature) => ({ ...feature, line: feature.line.replace("TABLE", `${nft} ${SCRATCH}`) }));
}

function compactFeatures(family: Family): readonly Feature[] {
  const four = family.name === "IPv4";
  const [address, other] = four ? ["192.0.2.1", "192.0.2.2"] : ["2001:db8::1", "2001:db8::2"];
  const what = "maps keyed by random numbers";
  return (["address", "nodePort"] as const).flatMap((by) => {
    const { key, value } = rule.indexedTypes(family, by, "tcp");
    const start = by === "address" ? `${address} . ` : "";
    return [
      `add map TABLE ${by} { typeof ${key} : ${value} ; }`,
      `add element TABLE ${by} { ${start}80 . 300 : ${other} . 8080 }`,
      `add rule TABLE nat ${rule.dnatByIndex(family, by, "tcp", by, 3)}`,
    ].map((line) => ({ what, option: "nft 1.0.6", line: line.replace("TABLE", `${family.nft} ${SCRATCH}`) }));
  });
}

const HEAD_LINES = 6;

function printProbe({ nft, nftType }: Family, features: readonly Feature[]): string {
  const table = `${nft} ${SCRATCH}`;
  const head = [
    `add table ${table}`,
    `add chain ${table} filter { type filter hook forward priority 0 ; }`,
    `add chain ${table} nat { type nat hook prerouting priority -100 ; }`,
    `add chain ${table} post { type nat hook postrouting priority 100 ; }`,
    `add map ${table} frontends { type ${nftType} . inet_proto . inet_service : verdict ; }`,
    `add set ${table} affinity { type ${nftType} ; flags dynamic,timeout ; timeout 1h ; }`,
  ];
  return `${[...head, ...features.map((feature) => feature.line)].join("\n")}\n`;
}

function versionOf(result: StepResult | undefined): string {
  return /v(\d+(?:\.\d+)*)/.exec(result?.stdout ?? "")?.[1] ?? "";
}

function versionFaults(result: StepResult | undefined): readonly string[] {
  if (result === undefined || result.exitCode === -1)
    return ["nft was not found: install the nftables package, 1.0.1 or newer"];
  if (result.exitCode !== 0) return [`nft --version failed (exit ${result.exitCode}): ${firstLine(result.stderr)}`];
  const version = versionOf(result);
  // An unknown spelling is no reason to refuse: the features decide.
  if (version === "" || atLeast(version.split(".").map(Number), MIN_NFT)) return [];
  return [`nft ${version} is too old: install nftables ${MIN_NFT.join(".")} or newer`];
}

function kernelFaults({ facts }: Context, { skipKernelVersionCheck }: ProbeOptions): readonly string[] {
  if (skipKernelVersionCheck || atLeast(facts.kernel, MIN_KERNEL)) return [];
  return [
    `kernel ${facts.kernel.join(".")} is too old for nftables mode: ${MIN_KERNEL.join(".")} or newer is needed, or set KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK=1 if yours has the features`,
  ];
}

function atLeast(version: readonly number[], least: readonly number[]): boolean {
  for (const [i, part] of least.entries()) {
    const own = version[i] ?? 0;
    if (own !== part) return own > part;
  }
  return true;
}

/** The kernel goes on after a failing line, so one check names all that is missing. */
function featureFaults(features: readonly Feature[], result: StepResult | undefined): readonly string[] {
  if (result === undefined || result.exitCode === 0) return [];
  const lines = new Set(
    [...result.stderr.matchAll(/:(\d+):\d+-\d+: Error: ([^\n]*)/g)].map((match) => Number(match[1])),
  );
  const missing = features.filter((_, i) => lines.has(HEAD_LINES + 1 + i));
  if (missing.length > 0 && ![...lines].some((line) => line <= HEAD_LINES))
    return missing.map(({ what, option }) => `nft or the kernel lacks ${what}: needs ${option}`);
  return [
    `nft cannot make a table (exit ${result.exitCode}): ${firstLine(result.stderr)}; needs CONFIG_NF_TABLES and root`,
  ];
}

function firstLine(text: string): string {
  return text.trim().split("\n")[0] ?? "";
}
