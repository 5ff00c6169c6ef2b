/** What ipvs mode needs of the kernel before any rule: modules, sysctls, timeouts. */
import type { Context } from "../../model/context.ts";
import type { ExecStep, Step, SysctlStep } from "../../model/step.ts";

/** The privileged steps; the same for both families. */
export function setup(context: Context): readonly Step[] {
  return [loadModules(context.ipvs.scheduler), ...sysctls(context), ...timeouts(context)];
}

/** The sysctls that ipvs mode stands on, for the look for drift too. */
export function sysctls(context: Context): readonly SysctlStep[] {
  const vs = (name: string, value: number, about: string): SysctlStep => set(`net/ipv4/vs/${name}`, value, about);
  return [
    vs("conntrack", 1, "connections through virtual servers are masqueraded by iptables"),
    ...(needsReuseMode(context.facts.kernel) ? [vs("conn_reuse_mode", 0, "no delay when a client reuses a port")] : []),
    vs("expire_nodest_conn", 1, "connections to removed endpoints end at once"),
    vs("expire_quiescent_template", 1, "affinity does not stick to draining endpoints"),
    set("net/ipv4/ip_forward", 1, "packets are forwarded to pods"),
    ...(context.ipvs.strictARP ? strictArp : []),
  ];
}

// --- internal ---

function set(name: string, value: number, about: string): SysctlStep {
  return { kind: "sysctl", name, value, when: "differs", required: true, about };
}

const strictArp: readonly SysctlStep[] = [
  set("net/ipv4/conf/all/arp_ignore", 1, "ipvs.strictARP: no answers for addresses of kube-ipvs0"),
  set("net/ipv4/conf/all/arp_announce", 2, "ipvs.strictARP: no announcements of addresses of kube-ipvs0"),
];

/** 4.1 brought the switch; since 5.9 the kernel reuses ports without delay and without dropping connections. */
function needsReuseMode([major, minor]: readonly [number, number]): boolean {
  const from = major > 4 || (major === 4 && minor >= 1);
  const until = major < 5 || (major === 5 && minor < 9);
  return from && until;
}

/** In a container without modules they are loaded already, or the probe has said what is missing. */
function loadModules(scheduler: string): ExecStep {
  const args = ["-a", "-q", "ip_vs", `ip_vs_${scheduler}`, "nf_conntrack", "dummy"];
  return { kind: "exec", tool: "modprobe", args, mayFail: true, about: "load the modules of ipvs" };
}

/** 0 leaves the kernel's value, for ipvsadm as for us. */
function timeouts({ ipvs }: Context): readonly ExecStep[] {
  const values = [ipvs.tcpTimeout, ipvs.tcpFinTimeout, ipvs.udpTimeout];
  if (values.every((v) => v === 0)) return [];
  const args = ["--set", ...values.map(String)];
  return [{ kind: "exec", tool: "ipvsadm", args, about: "ipvs.tcpTimeout, ipvs.tcpFinTimeout, ipvs.udpTimeout" }];
}
