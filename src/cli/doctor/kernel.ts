/** The kernel, our rights on it, the sysctls that the mode stands on, and how full the connection table is. */
import { accessSync, constants } from "node:fs";
import { release } from "node:os";
import { backendOf, probeMode } from "../../app/modes.ts";
import type { Config } from "../../config/config.ts";
import { type ConntrackSettings, decide, isFatal, wantedSettings } from "../../conntrack/limits.ts";
import { onlineCpus } from "../../host/facts.ts";
import { probeFamily } from "../../host/probe.ts";
import { capabilities } from "../../host/process.ts";
import { runSteps } from "../../host/run.ts";
import { readSysctl } from "../../host/sysctl.ts";
import type { Context } from "../../model/context.ts";
import { families } from "../../model/family.ts";
import type { SysctlStep } from "../../model/step.ts";
import { type Check, fail, ok, warn } from "./check.ts";

const rightsFix = "run as root (sudo), or in a container with securityContext.privileged: true";

export function checkPrivileges(): readonly Check[] {
  const own = capabilities();
  if (own === undefined) return [warn("privileges", "/proc/self/status cannot be read", "rights are unknown", "")];
  const checks: Check[] = [];
  checks.push(
    own.has("net_admin")
      ? ok("privileges", "CAP_NET_ADMIN is there")
      : fail("privileges", "CAP_NET_ADMIN is missing", "no rule can be read or written", rightsFix),
  );
  const lesser: readonly (readonly [string, string])[] = [
    ["sys_module", "kernel modules are not loaded by us: load them on the host before the start"],
    ["sys_resource", "oom_score_adj cannot be lowered: the process may be killed when memory is short"],
  ];
  for (const [name, meaning] of lesser)
    if (!own.has(name)) checks.push(warn("privileges", `CAP_${name.toUpperCase()} is missing`, meaning, rightsFix));
  return checks;
}

/** Families, and the mode in each of them, as the proxy itself asks at its start. */
export async function checkKernel(contexts: readonly Context[]): Promise<readonly Check[]> {
  const checks: Check[] = [ok("kernel", `Linux ${release()}`)];
  let usable = 0;
  const missing: Check[] = [];
  for (const context of contexts) {
    const name = context.family.name;
    const support = await probeFamily(context.mode, families[name]);
    if (!support.ok) {
      missing.push(warn("kernel", `${name}: ${support.reason}`, `no ${name} rules are written`, ""));
      continue;
    }
    const probed = await probeMode(context, runSteps, process.env);
    for (const fault of probed.faults)
      checks.push(fail("kernel", `${name}: ${fault}`, `${context.mode} mode cannot run`, rightsOr(fault, context)));
    for (const warning of probed.warnings) checks.push(warn("kernel", `${name}: ${warning}`, "", ""));
    if (probed.faults.length > 0) continue;
    usable++;
    checks.push(ok("kernel", `${name}: everything that ${context.mode} mode needs works`));
  }
  if (usable === 0 && missing.length === contexts.length)
    return [
      ...checks,
      ...missing.map((check) => ({ ...check, verdict: "fail" as const, fix: rightsOr(check.found, contexts[0]) })),
    ];
  return [...checks, ...missing];
}

export function checkSysctls(contexts: readonly Context[], config: Config): readonly Check[] {
  const steps = contexts.flatMap((context) => backendOf(context.mode).setup(context));
  const named = new Map(steps.flatMap((step) => (step.kind === "sysctl" ? [[step.name, step] as const] : [])));
  const forward = readSysctl("net/ipv4/ip_forward");
  return [
    ...[...named.values()].flatMap(checkSysctl),
    ...(named.has("net/ipv4/ip_forward") ? [] : [forwardCheck(forward)]),
    ...checkConntrackSettings(config),
    ...checkConntrackUse(),
  ];
}

// --- internal ---

function forwardCheck(forward: number | undefined): Check {
  return forward === 0
    ? warn(
        "sysctls",
        "net.ipv4.ip_forward = 0",
        "this node forwards nothing: traffic to pods of other nodes and from pods is dropped",
        "sysctl -w net.ipv4.ip_forward=1",
      )
    : ok("sysctls", `net.ipv4.ip_forward = ${forward}`);
}

function rightsOr(found: string, context: Context | undefined): string {
  if (/permission|operation not permitted|no right|root/i.test(found)) return rightsFix;
  return context?.mode === "ipvs"
    ? "modprobe -a ip_vs ip_vs_rr nf_conntrack dummy; or --proxy-mode nftables"
    : "a kernel with these options, or another mode: kube-proxy doctor --mode iptables";
}

function checkSysctl(step: SysctlStep): readonly Check[] {
  const name = step.name.replaceAll("/", ".");
  const current = readSysctl(step.name);
  if (current === undefined) {
    if (step.optional === true || step.name.startsWith("net/ipv4/vs/")) return [];
    return [warn("sysctls", `${name} does not exist in this kernel`, step.about, "")];
  }
  const good = step.when === "below" ? current >= step.value : current === step.value;
  if (good) return [ok("sysctls", `${name} = ${current}`)];
  if (writable(step.name))
    return [ok("sysctls", `${name} = ${current}; set to ${step.value} at the start (${step.about})`)];
  const found = `${name} = ${current}, cannot be set to ${step.value} here`;
  const fix = `sysctl -w ${name}=${step.value} on the host, or kube-proxy --init-only with more rights`;
  return [(step.required ? fail : warn)("sysctls", found, step.about, fix)];
}

function writable(name: string): boolean {
  try {
    accessSync(`/proc/sys/${name}`, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function checkConntrackSettings({ conntrack }: Config): readonly Check[] {
  const seconds = (ms: number): number => ms / 1000;
  const settings: ConntrackSettings = {
    ...conntrack,
    tcpEstablishedTimeout: seconds(conntrack.tcpEstablishedTimeout),
    tcpCloseWaitTimeout: seconds(conntrack.tcpCloseWaitTimeout),
    udpTimeout: seconds(conntrack.udpTimeout),
    udpStreamTimeout: seconds(conntrack.udpStreamTimeout),
  };
  return wantedSettings(settings, onlineCpus()).flatMap((wanted) => {
    const name = `net.netfilter.${wanted.file}`;
    const current = readSysctl(`net/netfilter/${wanted.file}`);
    if (current === undefined || decide(wanted, current) !== "write" || writable(`net/netfilter/${wanted.file}`))
      return [];
    const found = `${name} = ${current}, cannot be set to ${wanted.value} here`;
    const fix = `sysctl -w ${name}=${wanted.value} on the host, or ${wanted.field}: ${wanted.leave} in the configuration`;
    return isFatal(wanted, current)
      ? [fail("sysctls", found, "less than the configuration asks for: the proxy does not start", fix)]
      : [warn("sysctls", found, "the value stays", fix)];
  });
}

function checkConntrackUse(): readonly Check[] {
  const count = readSysctl("net/netfilter/nf_conntrack_count");
  const max = readSysctl("net/netfilter/nf_conntrack_max");
  if (count === undefined || max === undefined || max === 0)
    return [
      warn("sysctls", "the kernel tracks no connections yet", "nf_conntrack is not loaded", "modprobe nf_conntrack"),
    ];
  const percent = Math.round((100 * count) / max);
  const found = `${count} of ${max} connections tracked (${percent} %)`;
  if (percent < 75) return [ok("sysctls", found)];
  const fix = `sysctl -w net.netfilter.nf_conntrack_max=${max * 2}, and raise conntrack.maxPerCore`;
  return [warn("sysctls", found, "when the table is full, new connections are dropped", fix)];
}
