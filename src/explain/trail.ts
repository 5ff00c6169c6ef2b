/** The steps of one explanation as they are found, and the last part that all modes share: endpoints and shares. */
import type { Context } from "../model/context.ts";
import { joinHostPort } from "../model/ip.ts";
import type { Endpoint } from "../model/plan.ts";
import type { Knocked } from "./frontend.ts";
import type { Naming } from "./naming.ts";
import type { Origin } from "./origin.ts";
import type { Here, Packet, Source } from "./packet.ts";
import type { Fate, KernelObject, Share, Step, Topic } from "./verdict.ts";

/** All that a decision is made from. */
export interface Question {
  readonly packet: Packet;
  readonly context: Context;
  readonly here: Here;
  readonly origin: Origin;
  readonly naming: Naming;
  /** ipvs: the node speaks from a service address. */
  readonly virtualSource: boolean;
}

export interface Answer {
  readonly fate: Fate;
  readonly steps: readonly Step[];
}

export class Trail {
  readonly steps: Step[] = [];

  add(topic: Topic, text: string, objects: readonly KernelObject[] = []): void {
    this.steps.push({ topic, text, objects });
  }

  end(fate: Fate): Answer {
    return { fate, steps: this.steps };
  }
}

export interface Choice {
  readonly endpoints: readonly Endpoint[];
  /** From the list for Local policies. */
  readonly local: boolean;
  /** The whole connection is masqueraded, whatever the endpoint. */
  readonly masqueraded: boolean;
  /** Hairpin traffic is told by the endpoint's address alone (iptables), or only for endpoints of this node. */
  readonly hairpinEverywhere: boolean;
}

/** Ends a trail with endpoints: affinity, choice, hairpin, and whether answers come back. */
export function conclude(trail: Trail, at: Knocked, question: Question, choice: Choice): Answer {
  const { naming, packet } = question;
  const { endpoints } = choice;
  const [first] = endpoints;
  if (at.port.affinitySeconds > 0 && first !== undefined)
    trail.add(
      "affinity",
      `sessionAffinity ClientIP: a client that came within the last ${at.port.affinitySeconds} s goes to the same endpoint again; the shares are those of a new client.`,
      naming.affinity(at, first),
    );
  const shares = endpoints.map((e) => share(e, question, choice));
  trail.add("endpoints", countText(shares.length), [
    ...naming.balance(at, choice.local),
    ...endpoints.slice(0, namedEndpoints).flatMap((e) => naming.endpoint(at, e)),
  ]);
  for (const e of endpoints)
    if (!choice.masqueraded && isHairpin(e, packet.from, choice))
      trail.add(
        "masquerade",
        `${joinHostPort(e.ip, e.port)} is the sender itself: it sees the node's address as the source, or it would answer itself past this node.`,
        naming.hairpin(at, e),
      );
  if (shares.some((s) => s.repliesLost))
    trail.add(
      "other",
      `Answers of endpoints on other nodes do not come back through this node: the source address is kept, so they go ${packet.from.kind === "node" ? "to a service address, which every node takes for its own" : "straight to the client, which does not know their address"}. No connection comes about.`,
    );
  return trail.end({ kind: "dnat", shares });
}

// --- internal ---

/** Objects of so many endpoints are named. */
const namedEndpoints = 64;

function share(e: Endpoint, { packet, virtualSource }: Question, choice: Choice): Share {
  const masqueraded = choice.masqueraded || isHairpin(e, packet.from, choice);
  // A pod of this node and the node itself are reached through this node; others' answers need its address as the source.
  const past = packet.from.kind === "external" || virtualSource;
  return {
    ip: e.ip,
    port: e.port,
    local: e.local,
    probability: 1 / choice.endpoints.length,
    masqueraded,
    repliesLost: past && !masqueraded && !e.local,
  };
}

function isHairpin(e: Endpoint, from: Source, { hairpinEverywhere }: Choice): boolean {
  return e.ip === from.ip && (hairpinEverywhere || e.local);
}

function countText(count: number): string {
  return count === 1 ? "One endpoint serves." : `One of ${count} endpoints, each with the same chance.`;
}
