/** The verdict about one packet, from the plan and the Context alone. */
import type { Context } from "../model/context.ts";
import { familyOf } from "../model/ip.ts";
import type { Plan } from "../model/plan.ts";
import { decideByServer, decideNoServer } from "./decide-ipvs.ts";
import { decideByRules } from "./decide-rules.ts";
import { decideUnmatched } from "./decide-unmatched.ts";
import { findFrontend, isVirtual } from "./frontend.ts";
import { namingOf } from "./naming.ts";
import { originOf } from "./origin.ts";
import { type Here, hereOf, nodeSource, type Packet, type Source } from "./packet.ts";
import type { Answer, Question } from "./trail.ts";
import type { Verdict } from "./verdict.ts";

/** Where the packet goes on this node and why. The packet's family must be the Context's. */
export function explainPacket(plan: Plan, context: Context, packet: Packet, here: Here = hereOf(context)): Verdict {
  if (familyOf(packet.to.ip) !== context.family.name || familyOf(packet.from.ip) !== context.family.name)
    throw new RangeError(`the packet is not ${context.family.name}`);
  const asked: Packet = { from: chosenSource(plan, context, packet, here), to: packet.to };
  const question: Question = {
    packet: asked,
    context,
    here,
    origin: originOf(asked.from, context, here),
    naming: namingOf(context),
    virtualSource: context.mode === "ipvs" && isVirtual(plan, context, asked.from.ip),
  };
  const frontend = findFrontend(plan, context, here, asked.to);
  const at = frontend && { ...frontend, ip: asked.to.ip };
  const answer = decide(plan, question, at);
  const conflict = at === undefined ? undefined : conflictOf(plan, at);
  return {
    mode: context.mode,
    family: context.family.name,
    nodeName: context.nodeName,
    packet: asked,
    service: frontend?.service.key,
    fate: answer.fate,
    steps:
      conflict === undefined ? answer.steps : [...answer.steps, { topic: "other", text: `${conflict}.`, objects: [] }],
  };
}

// --- internal ---

type At = Parameters<typeof decideByRules>[0];

/** What the plan says about another Service that wants the same. */
function conflictOf(plan: Plan, { kind, ip, port }: At): string | undefined {
  const { protocol } = port;
  const what = kind === "node port" ? `node port ${port.nodePort}/${protocol}` : `${ip} port ${port.port}/${protocol}`;
  return plan.conflicts.find((line) => line.startsWith(`${what} is claimed`));
}

function decide(plan: Plan, question: Question, at: At | undefined): Answer {
  if (question.context.mode === "ipvs")
    return at === undefined ? decideNoServer(plan, question) : decideByServer(at, plan, question);
  return at === undefined ? decideUnmatched(plan, question) : decideByRules(at, plan, question);
}

/** Of the node itself: with the service addresses on the proxy's device, it speaks to them from themselves (ipvs). */
function chosenSource(plan: Plan, context: Context, { from, to }: Packet, here: Here): Source {
  if (from.kind !== "node" || !from.assumed) return from;
  const virtual = (ip: string): boolean => context.mode === "ipvs" && isVirtual(plan, context, ip);
  return { ...from, ip: nodeSource(to.ip, context, here, virtual) };
}
