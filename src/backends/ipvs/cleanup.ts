/** Removes all that ipvs mode could have made in one family, and nothing of anybody else. */
import type { Context } from "../../model/context.ts";
import { cidrContains } from "../../model/ip.ts";
import type { ExecStep, Step } from "../../model/step.ts";
import type { SetLine } from "../../tools/ipset.ts";
import { asVerb, declare, restoreStep, section } from "../../tools/iptables-restore.ts";
import { printServerLine } from "../../tools/ipvsadm.ts";
import { chains, device, setName, setsOf, tables } from "./names.ts";
import type { IpvsObserved, ObservedServer } from "./state.ts";
import { serverStep, setStep } from "./steps.ts";

/**
 * Virtual servers on addresses of kube-ipvs0 and on node ports of our sets, except in `excludeCIDRs`; then chains and
 * sets; the device last. Without `observed` nothing can be told to be
 * ours but by name: virtual servers are left then.
 */
export function cleanup(context: Context, observed: IpvsObserved | undefined): readonly Step[] {
  const servers = observed === undefined ? [] : ownServers(observed, context);
  const steps = [
    serverStep(servers.map((s) => printServerLine({ kind: "-D", server: s.id }))),
    ...removeChains(context, observed),
    removeSets(context, observed),
    removeDevice(),
  ];
  return steps.filter((step) => step !== undefined);
}

// --- internal ---

function ownServers(observed: IpvsObserved, context: Context): readonly ObservedServer[] {
  // The set too: the family that is cleaned first takes the device with it.
  const held = observed.sets.get(setName("IPVS-IPS", context.family))?.entries ?? [];
  const addresses = new Set([...observed.addresses, ...held]);
  const nodePorts = ownNodePorts(observed, context);
  return [...observed.servers.values()].filter(({ id }) => {
    if (context.ipvs.excludeCIDRs.some((cidr) => cidrContains(cidr, id.ip))) return false;
    return addresses.has(id.ip) || nodePorts.has(`${id.protocol}:${id.port}`);
  });
}

/** `tcp:30080` of every port in our node-port sets. */
function ownNodePorts(observed: IpvsObserved, { family }: Context): ReadonlySet<string> {
  const entries = (key: Parameters<typeof setName>[0]): readonly string[] => [
    ...(observed.sets.get(setName(key, family))?.entries ?? []),
  ];
  return new Set([
    ...entries("NODE-PORT-TCP").map((port) => `tcp:${port}`),
    ...entries("NODE-PORT-UDP").map((port) => `udp:${port}`),
    ...entries("NODE-PORT-SCTP-HASH").map((entry) => entry.slice(entry.indexOf(",") + 1)),
  ]);
}

/** Jumps, then rules, then the chains themselves: all in one transaction a table. */
function removeChains(context: Context, observed: IpvsObserved | undefined): readonly Step[] {
  if (observed === undefined) return [];
  const input = tables.flatMap((table) => {
    const own = chains[table].filter((name) => observed.chains[table].has(name));
    const jumps = observed.jumps[table].map((line) => asVerb("-D", line));
    if (own.length + jumps.length === 0) return [];
    return section(table, [...own.map(declare), ...jumps, ...own.map((name) => `-X ${name}\n`)]);
  });
  return input.length === 0 ? [] : [restoreStep(context.family, input, "remove the chains of ipvs mode")];
}

function removeSets(context: Context, observed: IpvsObserved | undefined): ExecStep | undefined {
  const own = setsOf(context.family).filter((set) => observed === undefined || observed.sets.has(set.name));
  return setStep(
    own.map(({ name }): SetLine => ({ kind: "destroy", name })),
    "remove the sets of ipvs mode",
  );
}

/** Both families share it: for the second one it is gone already. */
function removeDevice(): ExecStep {
  return { kind: "exec", tool: "ip", args: ["link", "del", device], mayFail: true, about: `remove ${device}` };
}
