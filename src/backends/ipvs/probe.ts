/** Whether this machine can run ipvs mode: tried in a throw-away network namespace, so that nothing is written. */
import type { Context } from "../../model/context.ts";
import type { ExecStep, StepResult } from "../../model/step.ts";
import type { Reading } from "../backend.ts";

export interface ProbeReport {
  /** Each ends the start: one line that names the module, package or field. */
  readonly errors: readonly string[];
  /** Told once. */
  readonly warnings: readonly string[];
}

/** Reads only; modules may get loaded. There is no falling back to another mode. */
export function probe(context: Context): Reading<ProbeReport> {
  const { scheduler } = context.ipvs;
  if (!/^[a-z0-9_]{1,15}$/.test(scheduler)) {
    return { steps: [], parse: () => ({ errors: [notAScheduler(scheduler)], warnings: [] }) };
  }
  return {
    steps: [
      attempt("ipvsadm", ["-A", "-f", "1", "-s", scheduler], "try the scheduler"),
      attempt("ipset", ["create", "KUBE-PROBE", "hash:ip,port,net"], "try ipset"),
      attempt("ip", ["link", "add", "kube-probe", "type", "dummy"], "try a dummy device"),
      attempt(
        context.family.iptables,
        ["-t", "nat", "-A", "POSTROUTING", "-m", "mark", "--mark", "1", "-j", "MASQUERADE"],
        "try iptables",
      ),
      { kind: "exec", tool: "grep", args: ["-sH", "", ...arpFiles], mayFail: true, about: "read the ARP sysctls" },
    ],
    parse: (results) => report(context, results),
  };
}

// --- internal ---

const arpFiles = ["/proc/sys/net/ipv4/conf/all/arp_ignore", "/proc/sys/net/ipv4/conf/all/arp_announce"];

function attempt(tool: string, args: readonly string[], about: string): ExecStep {
  return { kind: "exec", tool: "unshare", args: ["-n", tool, ...args], mayFail: true, about };
}

function report(context: Context, results: readonly StepResult[]): ProbeReport {
  const [ipvsadm, ipset, dummy, iptables, arp] = results;
  const strict = context.ipvs.strictARP ? [] : arpWarnings(arp);
  const refused = refusal(ipvsadm);
  if (refused !== undefined) return { errors: [], warnings: [refused, ...strict] };
  const errors = [
    ipvsError(ipvsadm, context.ipvs.scheduler),
    toolError(ipset, "ipset", "the kernel module ip_set_hash_ipportnet (CONFIG_IP_SET)"),
    toolError(dummy, "iproute2", "the kernel module dummy (CONFIG_DUMMY)"),
    toolError(iptables, "iptables", "the kernel's iptables NAT (xt_MASQUERADE)"),
  ].filter((error) => error !== undefined);
  return { errors: [...new Set(errors)], warnings: strict };
}

/** With NET_ADMIN alone (after --init-only, which tried it as a privileged process) there is no namespace to try in. */
function refusal(result: StepResult | undefined): string | undefined {
  const said = result?.stderr.split("\n").find((line) => line.startsWith("unshare: unshare failed"));
  if (said === undefined) return undefined;
  return `ipvs mode was not tried out before the first sync: no right to make a network namespace (${said}); --init-only with CAP_SYS_ADMIN tries it`;
}

function ipvsError(result: StepResult | undefined, scheduler: string): string | undefined {
  if (result?.stderr.includes("Scheduler or persistence engine not found")) return unknownScheduler(scheduler);
  return toolError(result, "ipvsadm", "the kernel module ip_vs (CONFIG_IP_VS)");
}

/** `unshare` says itself when it is not there (-1) or does not find the tool (127). */
function toolError(result: StepResult | undefined, packageName: string, needs: string): string | undefined {
  if (result === undefined || result.exitCode === 0) return undefined;
  if (result.exitCode === -1) return "the tool unshare is not installed; install the package util-linux";
  const said = result.stderr.split("\n").find((line) => line !== "" && !line.startsWith("modprobe:")) ?? "nothing";
  if (result.exitCode === 127) {
    const tool = packageName === "iproute2" ? "ip" : packageName;
    return `the tool ${tool} is not installed; install the package ${packageName}`;
  }
  return `${needs} does not work here (${packageName} said: ${said}); load it, or use mode nftables`;
}

function notAScheduler(scheduler: string): string {
  return `ipvs.scheduler: ${JSON.stringify(scheduler)} is no scheduler's name; allowed are rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq, mh and what else the kernel has`;
}

function unknownScheduler(scheduler: string): string {
  return `ipvs.scheduler: this kernel has no scheduler "${scheduler}"; load the module ip_vs_${scheduler} or choose one of rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq, mh`;
}

/** Left from a run with strictARP, or set by the administrator: not ours to undo. */
function arpWarnings(result: StepResult | undefined): readonly string[] {
  const set = (result?.stdout ?? "").split("\n").filter((line) => /:[1-9]/.test(line));
  if (set.length === 0) return [];
  const names = set.map((line) => line.slice("/proc/sys/".length).replaceAll("/", ".").replace(":", " = "));
  return [
    `ipvs.strictARP is off, but ${names.join(" and ")} is set and left so; reset it with sysctl -w if nothing else needs it`,
  ];
}
