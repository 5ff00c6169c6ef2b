/** Sets conntrack limits and timeouts at start: reads first, writes only differences, never lowers the table's size. */
import { readFileSync, writeFileSync } from "node:fs";
import {
  type ConntrackSettings,
  decide,
  isFatal,
  type WantedSetting,
  wantedBuckets,
  wantedMax,
  wantedSettings,
} from "../conntrack/limits.ts";
import type { Log } from "../model/log.ts";
import type { Step } from "../model/step.ts";
import { CommandError } from "./command-error.ts";
import { onlineCpus } from "./facts.ts";
import { type RunOptions, runSteps } from "./run.ts";
import { errorCode, procSys, readSysctl } from "./sysctl.ts";

export interface LimitsOptions extends RunOptions {
  readonly log: Log;
  /** Default: those online. */
  readonly cpus?: number;
  /** Default /sys. */
  readonly sysRoot?: string;
}

const dir = "net/netfilter";

/**
 * Returns one line for each thing that could not be done but does not matter enough to stop (for an event); they are
 * logged too. Throws one CommandError naming every value that is below what was asked for and cannot be raised.
 */
export async function applyConntrackSettings(
  settings: ConntrackSettings,
  options: LimitsOptions,
): Promise<readonly string[]> {
  const cpus = options.cpus ?? onlineCpus();
  const wanted = wantedSettings(settings, cpus);
  if (wanted.length === 0) return [];
  await loadIfAbsent(wanted, options);
  const warnings: string[] = [];
  const faults: string[] = [];
  for (const setting of wanted) applySetting(setting, options, warnings, faults);
  growBuckets(wantedMax(settings, cpus), options, warnings);
  for (const warning of warnings) options.log.warn("Conntrack setting not as wanted, going on", { reason: warning });
  if (faults.length === 0) return warnings;
  const facts = { argv: ["conntrack sysctls"], about: "", trouble: "sysctl", stderr: "", inputLines: [] } as const;
  throw new CommandError({ ...facts, detail: `cannot be set: ${faults.join("; ")}` });
}

// --- internal ---

function applySetting(wanted: WantedSetting, options: LimitsOptions, warnings: string[], faults: string[]): void {
  const root = options.sysctlRoot ?? procSys;
  const path = `${root}/${dir}/${wanted.file}`;
  let current: number | undefined;
  try {
    current = readSysctl(`${dir}/${wanted.file}`, root);
  } catch (error) {
    warnings.push(`cannot read ${path} (${errorCode(error)})`);
    return;
  }
  switch (decide(wanted, current)) {
    case "absent":
      warnings.push(`${path} does not exist: nf_conntrack is not loaded and could not be; ${wanted.value} not set`);
      return;
    case "keep":
      options.log.debug(1, "Conntrack setting is already enough, leaving it", {
        name: wanted.file,
        value: current,
        wanted: wanted.value,
      });
      return;
    case "write":
      try {
        writeFileSync(path, `${wanted.value}\n`, { flag: "r+" });
        options.log.info("Conntrack setting changed", { name: wanted.file, from: current, to: wanted.value });
      } catch (error) {
        const text = writeFailure(wanted, path, current ?? 0, errorCode(error));
        (isFatal(wanted, current ?? 0) ? faults : warnings).push(text);
      }
  }
}

function writeFailure(wanted: WantedSetting, path: string, current: number, code: string): string {
  const reason = ["EACCES", "EPERM", "EROFS"].includes(code) ? `it is read-only here, ${code}` : code;
  const onHost = `set it on the host (sysctl -w net.netfilter.${wanted.file}=${wanted.value})`;
  return `${path} is ${current}, wanted ${wanted.value}, and cannot be written (${reason}): ${onHost}, or set ${wanted.field}: ${wanted.leave} to stop asking for it`;
}

/** A rule that looks at connections makes the kernel load nf_conntrack itself, also where we have no modules or modprobe. */
const loaders: readonly { readonly step: Step; readonly cleanup?: Step }[] = [
  {
    step: {
      kind: "exec",
      tool: "nft",
      args: ["-f", "-"],
      // One transaction that leaves nothing; the module stays loaded.
      input: [
        "add table ip kube-proxy-probe\nadd chain ip kube-proxy-probe c { type filter hook forward priority 0; }\n" +
          "add rule ip kube-proxy-probe c ct state new\ndelete table ip kube-proxy-probe\n",
      ],
      about: "load nf_conntrack",
    },
  },
  {
    step: {
      kind: "exec",
      tool: "iptables-restore",
      args: ["--noflush", "-w", "5"],
      input: ["*filter\n:KUBE-PROXY-PROBE - [0:0]\n-A KUBE-PROXY-PROBE -m conntrack --ctstate NEW\nCOMMIT\n"],
      about: "load nf_conntrack",
    },
    cleanup: {
      kind: "exec",
      tool: "iptables-restore",
      args: ["--noflush", "-w", "5"],
      input: ["*filter\n:KUBE-PROXY-PROBE - [0:0]\n-X KUBE-PROXY-PROBE\nCOMMIT\n"],
      mayFail: true,
      about: "load nf_conntrack",
    },
  },
  { step: { kind: "exec", tool: "modprobe", args: ["nf_conntrack"], about: "load nf_conntrack" } },
];

async function loadIfAbsent(wanted: readonly WantedSetting[], options: LimitsOptions): Promise<void> {
  const absent = () => wanted.some(({ file }) => readOrUndefined(file, options) === undefined);
  for (const { step, cleanup } of loaders) {
    if (!absent()) return;
    try {
      await runSteps([step], options);
      if (cleanup !== undefined) await runSteps([cleanup], options);
    } catch (error) {
      options.log.debug(1, "Could not load nf_conntrack this way", { reason: String(error) });
    }
  }
}

function readOrUndefined(file: string, options: LimitsOptions): number | undefined {
  try {
    return readSysctl(`${dir}/${file}`, options.sysctlRoot);
  } catch {
    return 0;
  }
}

/** Best effort: only the initial network namespace may, and /sys is read-only in most containers. */
function growBuckets(max: number, options: LimitsOptions, warnings: string[]): void {
  const path = `${options.sysRoot ?? "/sys"}/module/nf_conntrack/parameters/hashsize`;
  if (max === 0) return;
  try {
    const current = Number.parseInt(readFileSync(path, "utf8"), 10);
    const buckets = wantedBuckets(max, current);
    if (buckets === undefined) return;
    writeFileSync(path, `${buckets}\n`, { flag: "r+" });
    options.log.info("Conntrack hash table grown", { from: current, to: buckets });
  } catch (error) {
    if (errorCode(error) === "ENOENT") return;
    warnings.push(
      `${path} cannot be raised to ${Math.floor(max / 4)} (${errorCode(error)}): lookups get slower when the table fills`,
    );
  }
}
