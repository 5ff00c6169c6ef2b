/** The decision in iptables and nftables mode: both follow the plan's fates; where they differ, it says so. */
import { cidrContains } from "../model/ip.ts";
import type { Plan, PortPlan } from "../model/plan.ts";
import { isFromOutsideToLoopback, localnetDrop } from "./decide-unmatched.ts";
import { answersNodePorts, findNodePort, isClusterIP, type Knocked } from "./frontend.ts";
import { isLocal } from "./packet.ts";
import { matchText, policyStep, topologyStep } from "./phrases.ts";
import { type Answer, conclude, type Question, Trail } from "./trail.ts";

/** A packet to an address and port of a Service. */
export function decideByRules(at: Knocked, plan: Plan, question: Question): Answer {
  const trail = new Trail();
  const { naming } = question;
  const guarded = at.kind === "load-balancer IP" && isGuarded(at.port, question);
  const denied = guarded && !isAllowed(at.port, question);
  if (denied && !served(at.port) && question.context.mode === "nftables") return denial(trail, at, question);
  const refused = refusedFate(at, question);
  // iptables has no chains for a port without endpoints: it is refused before source ranges are looked at.
  if (refused !== undefined && !(denied && served(at.port))) {
    trail.add("match", matchText(at), []);
    if (guarded && served(at.port))
      trail.add("source ranges", allowedText(at.port, question), naming.ranges(at, false));
    return refusal(trail, at, question, refused);
  }
  trail.add("match", matchText(at), naming.match(at, guarded));
  if (denied) return nodePortInstead(trail, at, plan, question) ?? denial(trail, at, question);
  if (guarded) trail.add("source ranges", allowedText(at.port, question), naming.ranges(at, false));
  return at.kind === "cluster IP" ? internal(trail, at, question) : external(trail, at, plan, question);
}

// --- internal ---

function served(port: PortPlan): boolean {
  return port.endpoints.length > 0;
}

function isGuarded(port: PortPlan, { context }: Question): boolean {
  return port.sourceRanges.length > 0 && !port.sourceRanges.includes(context.family.any);
}

function isAllowed(port: PortPlan, { packet, context }: Question): boolean {
  const within = (ip: string): boolean => port.sourceRanges.some((range) => cidrContains(range, ip));
  return within(packet.from.ip) || (within(context.nodeIP) && port.loadBalancerIPs.includes(packet.from.ip));
}

function allowedText(port: PortPlan, { packet }: Question): string {
  const range = port.sourceRanges.find((r) => cidrContains(r, packet.from.ip));
  if (range !== undefined) return `loadBalancerSourceRanges: ${packet.from.ip} is in ${range}, let in.`;
  return `loadBalancerSourceRanges hold this node, so the load-balancer address itself may come too: let in.`;
}

function denial(trail: Trail, at: Knocked, { packet, naming, context }: Question): Answer {
  const ranges = at.port.sourceRanges.join(", ");
  const where = context.mode === "nftables" ? "before any address is rewritten" : "after it was not rewritten";
  if (trail.steps.length === 0) trail.add("match", matchText(at));
  trail.add(
    "source ranges",
    `${packet.from.ip} is not in loadBalancerSourceRanges (${ranges}): dropped, ${where}.`,
    naming.ranges(at, true),
  );
  return trail.end({ kind: "drop" });
}

/** The fate that ends in a refusal, for this sender. */
function refusedFate(at: Knocked, { origin }: Question): "drop" | "reject" | undefined {
  const { port } = at;
  const fate = at.kind === "cluster IP" ? port.internal : port.external;
  if (fate === "reject") return fate;
  if (fate !== "drop") return undefined;
  const shortCut =
    at.kind !== "cluster IP" && port.clusterEndpoints.length > 0 && (origin.pod === true || origin.local);
  return shortCut ? undefined : fate;
}

function refusal(trail: Trail, at: Knocked, question: Question, fate: "drop" | "reject"): Answer {
  const { naming, packet, here, context } = question;
  if (isFromOutsideToLoopback(question)) return localnetDrop(trail);
  policyStep(trail, at, question);
  // In iptables mode what the node itself sends is not checked for these addresses, only what comes in or is forwarded.
  if (context.mode === "iptables" && at.kind !== "cluster IP" && packet.from.kind === "node" && !isLocal(at.ip, here)) {
    trail.add(
      "refusal",
      "There is nothing to send it to, and in iptables mode packets of the node itself to such addresses are not refused: it follows the route out of this node.",
    );
    return trail.end({ kind: "pass", to: "route" });
  }
  const text =
    fate === "reject"
      ? "No endpoint anywhere can answer: rejected at once (ICMP port unreachable)."
      : "Only other nodes have endpoints and the policy is Local: dropped, so that load balancers turn to those nodes.";
  trail.add("refusal", text, naming.refuse(at));
  return trail.end({ kind: fate });
}

function internal(trail: Trail, at: Knocked, question: Question): Answer {
  const { port } = at;
  const { context, origin, naming } = question;
  policyStep(trail, at, question);
  const local = port.internal === "local";
  if (!local) topologyStep(trail, at, question);
  const outside = origin.pod === false;
  const masqueraded = context.masqueradeAll || outside;
  if (context.masqueradeAll)
    trail.add("masquerade", "masqueradeAll: the endpoint sees the node's address.", naming.masquerade(at));
  else if (outside)
    trail.add(
      "masquerade",
      `Not from a pod (${origin.why}): the endpoint sees the node's address, so that answers come back here.`,
      naming.masquerade(at),
    );
  else
    trail.add(
      "masquerade",
      origin.pod === undefined
        ? `Source kept: whether it is a pod cannot be told, ${origin.why}.`
        : `Source kept: from a pod (${origin.why}).`,
    );
  const endpoints = local ? port.localEndpoints : port.clusterEndpoints;
  return conclude(trail, at, question, {
    endpoints,
    local,
    masqueraded,
    hairpinEverywhere: context.mode === "iptables",
  });
}

/** iptables: what source ranges keep out goes on through KUBE-SERVICES, where the number may be a node port too. */
function nodePortInstead(trail: Trail, at: Knocked, plan: Plan, question: Question): Answer | undefined {
  const { context, here, packet, naming } = question;
  if (context.mode !== "iptables" || !answersNodePorts(context, here, at.ip)) return undefined;
  const found = findNodePort(plan, packet.to);
  if (found === undefined) return undefined;
  const other = { ...found, ip: at.ip };
  if (refusedFate(other, question) !== undefined) return undefined;
  const text = `${packet.from.ip} is not in loadBalancerSourceRanges, but ${at.ip} is the node's own and the number is also a node port of ${other.port.name}, which has no ranges.`;
  trail.add("source ranges", text, naming.match(other, false));
  return external(trail, other, plan, question);
}

/** nftables marks by the address alone: one that is another Service's cluster IP too is masqueraded as such. */
function markedAsClusterIP(at: Knocked, plan: Plan, { context, origin }: Question): boolean {
  return context.mode === "nftables" && isClusterIP(plan, at.ip) && (context.masqueradeAll || origin.pod === false);
}

function external(trail: Trail, at: Knocked, plan: Plan, question: Question): Answer {
  const { port } = at;
  const { naming, origin, context } = question;
  const end = (local: boolean, marked: boolean): Answer => {
    const byAddress = !marked && markedAsClusterIP(at, plan, question);
    if (byAddress)
      trail.add("masquerade", `${at.ip} is also a cluster IP, and the sender no pod: masqueraded after all.`, [
        { tool: "nft", kind: "set", name: "cluster-ips", key: at.ip },
      ]);
    return conclude(trail, at, question, {
      endpoints: local ? port.localEndpoints : port.clusterEndpoints,
      local,
      masqueraded: marked || byAddress,
      hairpinEverywhere: context.mode === "iptables",
    });
  };
  if (!port.externalLocal) {
    policyStep(trail, at, question);
    topologyStep(trail, at, question);
    trail.add(
      "masquerade",
      "Traffic from outside under policy Cluster is masqueraded: the endpoint may be on another node and must answer through this one.",
      naming.masquerade(at),
    );
    return end(false, true);
  }
  const pods = port.clusterEndpoints.length > 0 && origin.pod === true;
  const node = port.clusterEndpoints.length > 0 && origin.local;
  if (!pods && !node) {
    policyStep(trail, at, question);
    if (context.mode === "iptables" && origin.local)
      trail.add("masquerade", "From the node itself: masqueraded.", naming.masquerade(at));
    else trail.add("masquerade", "Source kept: that is what policy Local is for.");
    return end(true, context.mode === "iptables" && origin.local);
  }
  trail.add(
    "policy",
    `externalTrafficPolicy Local binds traffic from outside only: ${pods ? `a pod (${origin.why})` : "the node itself"} may use the endpoints of all nodes.`,
    naming.external(at),
  );
  topologyStep(trail, at, question);
  if (pods) trail.add("masquerade", "Source kept: from a pod.");
  else trail.add("masquerade", "From the node itself: masqueraded.", naming.masquerade(at));
  return end(false, !pods);
}
