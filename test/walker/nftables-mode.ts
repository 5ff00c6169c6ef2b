/** Where a packet ends by the rule values of an nftables-mode state: base chains by hook and priority. */
import type { NftState } from "../../src/backends/nftables/index.ts";
import type { NftHook } from "../../src/tools/nft.ts";
import { add, type Outcomes, type Walked } from "./fate.ts";
import { splitAddress } from "./iptables-mode.ts";
import { type Nft, type NftExit, type NftWorld, walkNft } from "./nftables-walk.ts";

export interface NftTable extends Nft {
  readonly hooks: readonly (readonly [string, NftHook])[];
}

export function tableOf(state: NftState): NftTable {
  const chains = new Map<string, readonly string[]>();
  const sets = new Map<string, Map<string, string>>();
  const hooks: (readonly [string, NftHook])[] = [];
  for (const objects of [state.base, ...state.services.values()]) {
    for (const chain of objects.chains) {
      if (chains.has(chain.name)) throw new Error(`chain ${chain.name} twice`);
      chains.set(
        chain.name,
        chain.rules.map((r) => r.expression),
      );
      if (chain.hook !== undefined) hooks.push([chain.name, chain.hook]);
    }
    for (const set of objects.sets) sets.set(set.name, sets.get(set.name) ?? new Map());
  }
  for (const objects of [state.base, ...state.services.values()])
    for (const { set, key, value } of objects.elements) {
      const elements = sets.get(set);
      if (elements === undefined) throw new Error(`element of missing set ${set}`);
      elements.set(key, value ?? "");
    }
  hooks.sort(([, a], [, b]) => a.priority - b.priority);
  return { chains, sets, hooks };
}

export function walkNftables(table: NftTable, packet: Walked, remembered: ReadonlySet<string> = new Set()): Outcomes {
  const outcomes: Outcomes = new Map();
  const before: NftWorld = { nft: table, packet, translated: false, remembered };
  const hook: NftHook["hook"] = packet.iif === "" ? "output" : "prerouting";
  const early = run(table, before, hook, "filter", (priority) => priority < 0)[0];
  if (early !== undefined && isEnd(early)) return ended(outcomes, early, 1);
  for (const exit of run(table, before, hook, "nat", () => true)) {
    const to = typeof exit.verdict === "object" ? exit.verdict.dnat : undefined;
    finish(table, before, to, exit, outcomes);
  }
  return outcomes;
}

// --- internal ---

function isEnd(exit: NftExit): boolean {
  return exit.verdict === "drop" || exit.verdict === "reject";
}

function ended(outcomes: Outcomes, exit: NftExit, probability: number): Outcomes {
  add(outcomes, String(exit.verdict), probability);
  return outcomes;
}

/** All chains of a hook and type; a verdict of one ends the others, but for accept. */
function run(
  table: NftTable,
  world: NftWorld,
  hook: NftHook["hook"],
  type: NftHook["type"],
  priority: (priority: number) => boolean,
  mark = 0,
): readonly NftExit[] {
  let exits: readonly NftExit[] = [{ probability: 1, mark, verdict: "end" }];
  for (const [name, at] of table.hooks) {
    if (at.hook !== hook || at.type !== type || !priority(at.priority)) continue;
    exits = exits.flatMap((exit) =>
      exit.verdict === "end"
        ? walkNft(world, name, exit.mark).map((e) => ({ ...e, probability: e.probability * exit.probability }))
        : [exit],
    );
  }
  return exits;
}

function finish(table: NftTable, before: NftWorld, to: string | undefined, exit: NftExit, outcomes: Outcomes): void {
  const { packet } = before;
  const [daddr, dport] = to === undefined ? [packet.daddr, packet.dport] : splitAddress(to);
  const after: NftWorld = { ...before, packet: { ...packet, daddr, dport }, translated: to !== undefined };
  const local = packet.isLocal(daddr);
  const hooks: NftHook["hook"][] =
    packet.iif === "" ? (local ? ["output", "input"] : ["output"]) : [local ? "input" : "forward"];
  for (const hook of hooks) {
    const late = run(table, after, hook, "filter", (p) => p >= 0, exit.mark)[0];
    if (late !== undefined && isEnd(late)) {
      ended(outcomes, late, exit.probability);
      return;
    }
  }
  if (to === undefined) {
    add(outcomes, "pass", exit.probability);
    return;
  }
  const masqueraded = run(table, after, "postrouting", "nat", () => true, exit.mark)[0]?.verdict === "masquerade";
  add(outcomes, `${to}${masqueraded ? " masqueraded" : ""}`, exit.probability);
}
