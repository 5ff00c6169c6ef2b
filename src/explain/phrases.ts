/** Sentences that the modes share: which frontend it is, what the policies say, what topology hints leave. */
import { joinHostPort } from "../model/ip.ts";
import type { PortPlan } from "../model/plan.ts";
import type { Knocked } from "./frontend.ts";
import type { Question, Trail } from "./trail.ts";

export function matchText({ kind, port, ip }: Knocked): string {
  const number = kind === "node port" ? port.nodePort : port.port;
  const a = kind === "external IP" ? "an" : "a";
  return `${joinHostPort(ip, number)}/${port.protocol} is ${a} ${kind} of Service port ${port.name}.`;
}

/** Which policy counts and what it means here. */
export function policyStep(trail: Trail, at: Knocked, { naming }: Question): void {
  const { port } = at;
  const inside = at.kind === "cluster IP";
  const field = inside ? "internalTrafficPolicy" : "externalTrafficPolicy";
  const isLocal = inside ? port.internalLocal : port.externalLocal;
  const text = isLocal
    ? `${field} Local: only endpoints of this node count.`
    : `${field} Cluster: endpoints of all nodes count.`;
  trail.add("policy", text, inside || port.endpoints.length === 0 ? [] : naming.external(at));
}

/** Says what a cut by hints left out; nothing when it left all in. */
export function topologyStep(trail: Trail, at: Knocked, { context }: Question): void {
  const out = cutOff(at.port);
  if (out === 0) return;
  const whose = context.zone === "" ? `node ${context.nodeName}` : `node ${context.nodeName} or zone ${context.zone}`;
  trail.add(
    "topology",
    `Topology hints: ${out} ready endpoint${out === 1 ? " is" : "s are"} meant for others than ${whose} and left out.`,
  );
}

// --- internal ---

/** Ready endpoints that are not in the list for cluster-wide traffic. */
function cutOff(port: PortPlan): number {
  const all = [...port.endpoints, ...port.unused].filter((e) => e.ready);
  return all.filter((e) => !port.clusterEndpoints.includes(e)).length;
}
