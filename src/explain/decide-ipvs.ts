/** The decision in ipvs mode: each address has its own virtual server, and Local policies fall back to all endpoints. */
import { cidrContains } from "../model/ip.ts";
import type { Plan, PortPlan } from "../model/plan.ts";
import { findHealthCheck, findNodePort, isVirtual, type Knocked } from "./frontend.ts";
import { isLocal } from "./packet.ts";
import { matchText, topologyStep } from "./phrases.ts";
import { type Answer, conclude, type Question, Trail } from "./trail.ts";

/** A packet to an address and port of a Service. */
export function decideByServer(at: Knocked, plan: Plan, question: Question): Answer {
  const trail = new Trail();
  const { naming, packet } = question;
  const { port } = at;
  trail.add("match", matchText(at), naming.match(at, false));
  const isLocalPolicy = at.kind === "cluster IP" ? port.internalLocal : port.externalLocal;
  const useLocal = isLocalPolicy && port.localEndpoints.length > 0;
  const endpoints = useLocal ? port.localEndpoints : port.clusterEndpoints;
  const guarded = at.kind === "load-balancer IP" && isGuarded(port);
  const denied = guarded && !isAllowed(at, question);
  // What comes in is filtered before ipvs sees it, what the node sends after.
  if (denied && packet.from.kind !== "node") return denial(trail, at, question);
  if (endpoints.length === 0) {
    trail.add("refusal", "Its virtual server has no real server: rejected at once.", naming.refuse(at));
    return trail.end({ kind: "reject" });
  }
  if (denied) return denial(trail, at, question);
  if (guarded) trail.add("source ranges", "loadBalancerSourceRanges: let in.", naming.ranges(at, false));
  policy(trail, at, isLocalPolicy, useLocal);
  if (!useLocal) topologyStep(trail, at, question);
  const masqueraded = masquerade(trail, at, plan, question);
  return conclude(trail, at, question, { endpoints, local: useLocal, masqueraded, hairpinEverywhere: false });
}

/** A packet to nothing that has a virtual server. */
export function decideNoServer(plan: Plan, { packet, context, here }: Question): Answer {
  const trail = new Trail();
  const { to } = packet;
  if (isVirtual(plan, context, to.ip)) {
    // The set of health check ports knows ports of tcp and udp only, not addresses.
    const check = to.protocol === "sctp" ? undefined : findHealthCheck(plan, to.port);
    if (check === undefined) {
      trail.add(
        "match",
        `${to.ip} is a service address, but no Service port is ${to.port}/${to.protocol}: rejected, or the node's own servers would be open on it.`,
        [{ tool: "iptables", table: "filter", chain: "KUBE-IPVS-FILTER", words: ["-j REJECT"] }],
      );
      return trail.end({ kind: "reject" });
    }
    trail.add("match", `Health check node port of ${check.key}, on a service address: this process may answer.`);
    return trail.end({ kind: "pass", to: "host" });
  }
  const local = isLocal(to.ip, here);
  const check = to.protocol === "tcp" && local ? findHealthCheck(plan, to.port) : undefined;
  if (check !== undefined)
    trail.add("match", `Health check node port of ${check.key}: this process answers it itself.`);
  else trail.add("match", "No Service has this address and port: this proxy leaves the packet alone.");
  return trail.end({ kind: "pass", to: local ? "host" : "route" });
}

// --- internal ---

function isGuarded({ sourceRanges }: PortPlan): boolean {
  return sourceRanges.length > 0 && !sourceRanges.some((range) => range.endsWith("/0"));
}

function isAllowed(at: Knocked, { packet, context }: Question): boolean {
  const within = (ip: string): boolean => at.port.sourceRanges.some((range) => cidrContains(range, ip));
  const { from } = packet;
  // Only what has the address itself as its source is stopped on the way out.
  if (from.kind === "node") return from.ip !== at.ip || within(context.nodeIP);
  return within(from.ip) || (within(context.nodeIP) && from.ip === at.ip);
}

function denial(trail: Trail, at: Knocked, { packet, naming }: Question): Answer {
  const text = `${packet.from.ip} is not in loadBalancerSourceRanges (${at.port.sourceRanges.join(", ")}): dropped.`;
  const out = {
    tool: "iptables",
    table: "filter",
    chain: "KUBE-IPVS-OUT-FILTER",
    words: [`--vaddr ${at.ip}`, `--vport ${at.port.port}`, "-j DROP"],
  } as const;
  trail.add("source ranges", text, packet.from.kind === "node" ? [out] : naming.ranges(at, true));
  return trail.end({ kind: "drop" });
}

function policy(trail: Trail, at: Knocked, isLocalPolicy: boolean, useLocal: boolean): void {
  const field = at.kind === "cluster IP" ? "internalTrafficPolicy" : "externalTrafficPolicy";
  if (!isLocalPolicy) trail.add("policy", `${field} Cluster: endpoints of all nodes count.`);
  else if (useLocal)
    trail.add("policy", `${field} Local: only endpoints of this node count, for pods and the node itself as well.`);
  else
    trail.add(
      "policy",
      `${field} Local, but this node has no endpoint: in ipvs mode those of all nodes serve, since each address has one virtual server for everybody.`,
    );
}

/** Adds the step about masquerading and says whether the whole connection is masqueraded. */
function masquerade(trail: Trail, at: Knocked, plan: Plan, question: Question): boolean {
  const reason = reasonToMasquerade(at, plan, question);
  if (reason === undefined) trail.add("masquerade", "Source kept.");
  else trail.add("masquerade", reason, question.naming.masquerade(at));
  return reason !== undefined;
}

function reasonToMasquerade(at: Knocked, plan: Plan, question: Question): string | undefined {
  const { context, origin, packet } = question;
  if (packet.from.ip.startsWith("127.") || packet.from.ip === "::1") return undefined;
  if (at.kind === "cluster IP") {
    if (context.masqueradeAll) return "masqueradeAll: the endpoint sees the node's address.";
    if (origin.pod === false) return `Not from a pod (${origin.why}): the endpoint sees the node's address.`;
    if (origin.pod === undefined && packet.from.ip === at.ip)
      return "From the node, which speaks from the cluster IP itself: the endpoint sees the node's address.";
  } else if (!at.port.externalLocal)
    return "Traffic from outside under policy Cluster is masqueraded: the endpoint must answer through this node.";
  return at.kind === "node port" || at.kind === "external IP" ? undefined : byNodePort(at, plan, question);
}

/** Service addresses are the node's own, and node ports are told by their number only. */
function byNodePort(at: Knocked, plan: Plan, { context }: Question): string | undefined {
  const { port } = at;
  if (port.protocol === "sctp" || context.nodePorts.addresses.length === 0) return undefined;
  const other = findNodePort(plan, { ip: at.ip, port: port.port, protocol: port.protocol });
  if (other === undefined || other.port.externalLocal) return undefined;
  return `Port ${port.port} is also the node port of ${other.port.name}, which the sets cannot tell apart: masqueraded.`;
}
