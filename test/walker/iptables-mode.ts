/** Where a packet ends by the rule values of an iptables-mode state: the hooks in the kernel's order. */

import type { IptablesState } from "../../src/backends/iptables/index.ts";
import { dispatchChains } from "../../src/backends/iptables/names.ts";
import { chainsOf } from "../../src/backends/iptables/service-text.ts";
import { parseRule, type Rule } from "../../src/tools/iptables.ts";
import { add, type Outcomes, type Walked } from "./fate.ts";
import { type Table, type World, walkChain } from "./iptables-walk.ts";

type Tables = Readonly<Record<"nat" | "filter", Table>>;

/** All rules of a state, parsed, by table and chain. */
export function tablesOf(state: IptablesState): Tables {
  const tables = { nat: new Map<string, Rule[]>(), filter: new Map<string, Rule[]>() };
  const append = (table: "nat" | "filter", chain: string, text: string): void => {
    const rules = tables[table].get(chain) ?? [];
    tables[table].set(chain, rules);
    for (const line of text.split("\n")) {
      if (line === "") continue;
      const rule = parseRule(line);
      if (rule === undefined || rule.chain !== chain) throw new Error(`not a rule of ${chain}: ${line}`);
      rules.push(rule);
    }
  };
  for (const { table, chain } of dispatchChains) if (table !== "mangle") append(table, chain, "");
  for (const service of state.services.values()) {
    for (const { name, rules } of chainsOf(service)) append("nat", name, rules);
    for (const [i, { table, chain }] of dispatchChains.entries())
      if (table !== "mangle") append(table, chain, service.dispatch[i] ?? "");
  }
  for (const table of ["nat", "filter"] as const) {
    const fixed = state.fixed[table];
    append(table, "KUBE-FIREWALL", "");
    for (const [chain, text] of [...fixed.chains, ...fixed.tails]) append(table, chain, text);
    for (const chain of ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"]) append(table, chain, "");
    for (const line of fixed.jumps) append(table, line.split(" ")[1] ?? "", line);
  }
  return tables;
}

export interface IptablesWalk {
  readonly tables: Tables;
  readonly remembered?: ReadonlySet<string>;
}

export function walkIptables({ tables, remembered }: IptablesWalk, packet: Walked): Outcomes {
  const outcomes: Outcomes = new Map();
  const world: World = { packet, sets: new Map(), remembered: remembered ?? new Set(), translated: false };
  const sent = packet.iif === "";
  for (const exit of walkChain(tables.nat, sent ? "OUTPUT" : "PREROUTING", 0, world)) {
    const to = typeof exit.verdict === "object" ? exit.verdict.dnat : undefined;
    finish(tables, world, exit.mark, to, exit.probability, outcomes);
  }
  return outcomes;
}

// --- internal ---

function finish(
  tables: Tables,
  world: World,
  mark: number,
  to: string | undefined,
  probability: number,
  outcomes: Outcomes,
): void {
  const { packet } = world;
  const [daddr, dport] = to === undefined ? [packet.daddr, packet.dport] : splitAddress(to);
  const after: World = { ...world, packet: { ...packet, daddr, dport }, translated: to !== undefined };
  const local = packet.isLocal(daddr);
  const hooks = packet.iif === "" ? (local ? ["OUTPUT", "INPUT"] : ["OUTPUT"]) : [local ? "INPUT" : "FORWARD"];
  for (const hook of hooks) {
    const verdict = walkChain(tables.filter, hook, mark, after)[0]?.verdict;
    if (verdict === "drop" || verdict === "reject") {
      add(outcomes, verdict, probability);
      return;
    }
  }
  if (to === undefined) {
    add(outcomes, "pass", probability);
    return;
  }
  const masqueraded = walkChain(tables.nat, "POSTROUTING", mark, after)[0]?.verdict === "masquerade";
  add(outcomes, `${to}${masqueraded ? " masqueraded" : ""}`, probability);
}

export function splitAddress(text: string): readonly [string, number] {
  const at = text.lastIndexOf(":");
  return [text.slice(0, at).replace(/[[\]]/g, ""), Number(text.slice(at + 1))];
}
