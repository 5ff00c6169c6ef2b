/** Where a walked packet ends, as a distribution, in a form that walkers and `explain` are compared in. */

import type { Fate as Explained } from "../../src/explain/verdict.ts";
import { joinHostPort } from "../../src/model/ip.ts";

/** One packet as a walker sees it. */
export interface Walked {
  readonly saddr: string;
  readonly daddr: string;
  readonly protocol: "tcp" | "udp" | "sctp";
  readonly dport: number;
  /** Interface it came in by; empty: sent by the node itself. */
  readonly iif: string;
  readonly isLocal: (ip: string) => boolean;
}

/** Probabilities by outcome: `drop`, `reject`, `pass`, `10.0.0.1:80`, `10.0.0.1:80 masqueraded`. */
export type Outcomes = Map<string, number>;

export function add(outcomes: Outcomes, outcome: string, probability: number): void {
  outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + probability);
}

/** As text with probabilities rounded to a tenth of a percent (iptables keeps 31 bits of them), sorted. */
export function printOutcomes(outcomes: Outcomes): string {
  return [...outcomes]
    .filter(([, p]) => p > 1e-9)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([outcome, p]) => `${outcome} ${(p * 100).toFixed(1)}%`)
    .join(", ");
}

export function printExplained(fate: Explained): string {
  const outcomes: Outcomes = new Map();
  if (fate.kind === "dnat")
    for (const s of fate.shares)
      add(outcomes, `${joinHostPort(s.ip, s.port)}${s.masqueraded ? " masqueraded" : ""}`, s.probability);
  // The process serves it as an ordinary listener: rules let it pass.
  else add(outcomes, fate.kind === "proxied" ? "pass" : fate.kind, 1);
  return printOutcomes(outcomes);
}
