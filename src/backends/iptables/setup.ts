/** The privileged steps before the first rule: counters and sysctls. */
import type { Context } from "../../model/context.ts";
import type { Step, SysctlStep } from "../../model/step.ts";
import { counters, servesLocalhost } from "./fixed.ts";

export function setup(context: Context): readonly Step[] {
  const steps: Step[] = [];
  if (context.facts.nfacct) steps.push(...counterSteps(context));
  steps.push(...sysctls(context), {
    kind: "sysctl",
    name: `net/bridge/bridge-nf-call-${context.family.iptables}`,
    value: 1,
    when: "differs",
    required: false,
    // Absent until br_netfilter is loaded; then it is needed for pods on a bridge that reach each other through a Service.
    optional: true,
    about: "bridged traffic passes the rules",
  });
  return steps;
}

/** The sysctls that the rules stand on, for the look for drift and its repair too. */
export function sysctls(context: Context): readonly SysctlStep[] {
  if (!servesLocalhost(context)) return [];
  return [
    {
      kind: "sysctl",
      name: "net/ipv4/conf/all/route_localnet",
      value: 1,
      when: "differs",
      required: true,
      about: "node ports on 127.0.0.1 (iptables.localhostNodePorts; set it to false to do without)",
    },
  ];
}

// --- internal ---

function counterSteps(context: Context): Step[] {
  const names = servesLocalhost(context) ? [counters.invalid, counters.localhost] : [counters.invalid];
  // Fails when the counter exists, which is as good.
  return names.map((name) => ({
    kind: "exec",
    tool: "nfacct",
    args: ["add", name],
    mayFail: true,
    about: `packet counter ${name}`,
  }));
}
