/** The decision about packets that no Service answers, in iptables and nftables mode: refused on purpose, or left alone. */
import { cidrContains, isLoopback } from "../model/ip.ts";
import type { Plan } from "../model/plan.ts";
import { findHealthCheck, findNodePort, isClusterIP, servesLocalhost } from "./frontend.ts";
import { isLocal } from "./packet.ts";
import { type Answer, type Question, Trail } from "./trail.ts";

/** A packet to nothing that a Service answers on. */
export function decideUnmatched(plan: Plan, question: Question): Answer {
  const { context, packet, here } = question;
  const { to, from } = packet;
  const trail = new Trail();
  const local = isLocal(to.ip, here);
  if (context.mode === "nftables") {
    const refused = nftablesRefusal(plan, trail, question, local);
    if (refused !== undefined) return refused;
  } else {
    const refused = iptablesRefusal(plan, trail, question, local);
    if (refused !== undefined) return refused;
  }
  const check = to.protocol === "tcp" && local ? findHealthCheck(plan, to.port) : undefined;
  if (check !== undefined)
    trail.add("match", `Health check node port of ${check.key}: this process answers it itself.`);
  else trail.add("match", "No Service has this address and port: the rules of this proxy leave the packet alone.");
  if (local && isLoopback(to.ip) && from.kind !== "node")
    trail.add("other", "The kernel itself drops packets to loopback addresses that come from outside (martians).");
  return trail.end({ kind: "pass", to: local ? "host" : "route" });
}

/** With route_localnet on, our own rule takes the place of the kernel's check for martians; it stands first. */
export function isFromOutsideToLoopback({ packet, context }: Question): boolean {
  return servesLocalhost(context) && isLoopback(packet.to.ip) && !isLoopback(packet.from.ip);
}

export function localnetDrop(trail: Trail): Answer {
  trail.add(
    "refusal",
    "Packets from elsewhere to loopback addresses are dropped while route_localnet is on (CVE-2020-8558).",
    [{ tool: "iptables", table: "filter", chain: "KUBE-FIREWALL", words: ["-d 127.0.0.0/8", "-j DROP"] }],
  );
  return trail.end({ kind: "drop" });
}

// --- internal ---

function nftablesRefusal(plan: Plan, trail: Trail, { packet, context }: Question, local: boolean): Answer | undefined {
  const { to } = packet;
  if (isClusterIP(plan, to.ip) && !local) {
    trail.add("match", `${to.ip} is a cluster IP, but no Service port is ${to.port}/${to.protocol}: rejected.`, [
      { tool: "nft", kind: "set", name: "cluster-ips", key: to.ip },
      { tool: "nft", kind: "chain", name: "cluster-ips-check" },
    ]);
    return trail.end({ kind: "reject" });
  }
  const range = local ? undefined : plan.serviceCIDRs.find((cidr) => cidrContains(cidr, to.ip));
  if (range !== undefined) {
    trail.add("match", `${to.ip} is in the ServiceCIDR ${range}, but no Service has it: dropped.`, [
      { tool: "nft", kind: "chain", name: "cluster-ips-check" },
    ]);
    return trail.end({ kind: "drop" });
  }
  if (!context.localhostNodePorts || !isLoopback(to.ip)) return undefined;
  const at = findNodePort(plan, to);
  if (at === undefined) return undefined;
  if (to.protocol !== "tcp") {
    trail.add("match", `Node port of ${at.port.name} on localhost: only TCP is served there, rejected.`, [
      { tool: "nft", kind: "map", name: "localhost-nodeports", key: `${to.protocol} . ${to.port}` },
    ]);
    return trail.end({ kind: "reject" });
  }
  const { external, clusterEndpoints, localEndpoints } = at.port;
  const endpoints = external === "cluster" ? clusterEndpoints : external === "local" ? localEndpoints : [];
  if (endpoints.length === 0) return undefined;
  trail.add(
    "match",
    `Node port of ${at.port.name} on localhost: this process listens there and passes connections on.`,
  );
  const shares = endpoints.map(({ ip, port, local: own }) => ({
    ip,
    port,
    local: own,
    probability: 1 / endpoints.length,
    masqueraded: true,
    repliesLost: false,
  }));
  return trail.end({ kind: "proxied", shares });
}

function iptablesRefusal(plan: Plan, trail: Trail, question: Question, local: boolean): Answer | undefined {
  const { to } = question.packet;
  if (isFromOutsideToLoopback(question)) return localnetDrop(trail);
  // The rule for node ports without endpoints looks for any local address, whatever nodePortAddresses says.
  const at = local ? findNodePort(plan, to) : undefined;
  const fate = at?.port.external;
  if (at !== undefined && (fate === "drop" || fate === "reject")) {
    const knocked = { ...at, ip: to.ip };
    trail.add("match", `Node port of ${at.port.name}, which has no ${fate === "drop" ? "local " : ""}endpoint.`);
    trail.add("refusal", fate === "drop" ? "Dropped." : "Rejected at once.", question.naming.refuse(knocked));
    return trail.end({ kind: fate });
  }
  return undefined;
}
