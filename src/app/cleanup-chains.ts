/** The chains of iptables and ipvs mode in one family and one variant of the tools: what there is, and its removal. */
import type { Reading } from "../backends/backend.ts";
import { cleanup as removeIptables } from "../backends/iptables/cleanup.ts";
import { canary, isServiceChain, sharedChain, type Table, tables } from "../backends/iptables/names.ts";
import { type IptablesObserved, observe } from "../backends/iptables/observation.ts";
import { ipvs } from "../backends/ipvs/index.ts";
import { chains as ipvsChains } from "../backends/ipvs/names.ts";
import type { IpvsObserved } from "../backends/ipvs/state.ts";
import type { Context, ProxyMode } from "../model/context.ts";
import type { ExecStep } from "../model/step.ts";
import { jumpOf, linesOf, type SavedTable } from "../tools/iptables-save.ts";
import { absent, aimAt, isIptables, type Tools } from "./cleanup-variant.ts";
import type { RunSteps } from "./modes.ts";

/** Chains by mode that are not named after one Service port. */
const fixedChains: Readonly<Record<ProxyMode, Readonly<Record<Table, readonly string[]>>>> = {
  iptables: {
    mangle: [canary],
    filter: [
      "KUBE-SERVICES",
      "KUBE-EXTERNAL-SERVICES",
      "KUBE-NODEPORTS",
      "KUBE-FORWARD",
      "KUBE-PROXY-FIREWALL",
      canary,
    ],
    nat: ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", canary],
  },
  ipvs: { mangle: [], ...ipvsChains },
  nftables: { mangle: [], filter: [], nat: [] },
};

/** The kubelet's mark in a table: where it is, KUBE-FIREWALL is its chain as much as ours. */
const kubeletCanary = "KUBE-KUBELET-CANARY";

export function modeOwns(mode: ProxyMode | undefined, table: Table, chain: string): boolean {
  if (mode === undefined) return false;
  return fixedChains[mode][table].includes(chain) || (mode === "iptables" && table === "nat" && isServiceChain(chain));
}

/** Chains of ours, as `filter KUBE-FORWARD`, that the mode to keep does not own. */
export function foundChains(seen: IptablesObserved, keep: ProxyMode | undefined): readonly string[] {
  return tables.flatMap((table) =>
    [...seen[table].chains.keys()]
      .filter((chain) => modeOwns("iptables", table, chain) || modeOwns("ipvs", table, chain))
      .filter((chain) => !modeOwns(keep, table, chain))
      .map((chain) => `${table} ${chain}`),
  );
}

export async function observeChains(context: Context, tools: Tools, run: RunSteps): Promise<IptablesObserved> {
  return answer(observe(context), context, tools, run);
}

/** Removes what `foundChains` finds, but chains that rules of others lead to. Throws CommandError. */
export async function removeChains(
  context: Context,
  seen: IptablesObserved,
  keep: ProxyMode | undefined,
  tools: Tools,
  run: RunSteps,
): Promise<void> {
  const aimed: Context = {
    ...context,
    mode: keep ?? "nftables",
    facts: { ...context.facts, iptables: tools.variant, nfacct: false },
  };
  const send = async (steps: readonly ExecStep[]) => {
    await run(steps.map((step) => aimAt(step, context.family, tools)).filter((step) => step !== undefined));
  };
  if (keep !== "iptables") await send(removeIptables(aimed, withoutKubelet(seen)).filter(isIptables));
  if (keep === "ipvs") return;
  const observed = await answer(ipvs.observe(aimed), aimed, tools, run);
  const left = await observeChains(aimed, tools, run);
  await send(ipvs.cleanup(aimed, removable(observed, left, keep)).filter(isIptables));
}

// --- internal ---

/** A backend's reading, of which only the questions to iptables are asked. */
async function answer<T>(reading: Reading<T>, context: Context, tools: Tools, run: RunSteps): Promise<T> {
  const results = [];
  for (const step of reading.steps) {
    const aimed = isIptables(step) ? aimAt(step, context.family, tools) : undefined;
    const [result] = aimed === undefined ? [] : await run([{ ...aimed, mayFail: true }]);
    results.push(result ?? absent);
  }
  return reading.parse(results);
}

function withoutKubelet(seen: IptablesObserved): IptablesObserved {
  if (!tables.some((table) => seen[table].chains.has(kubeletCanary))) return seen;
  const chains = new Map([...seen.filter.chains].filter(([chain]) => chain !== sharedChain));
  return { ...seen, filter: { chains } };
}

/** What of ipvs mode may go: not what the mode to keep owns, nor chains that rules of others lead to. */
function removable(observed: IpvsObserved, seen: IptablesObserved, keep: ProxyMode | undefined): IpvsObserved {
  const stays = (table: "filter" | "nat") => {
    const used = usedByOthers(seen[table]);
    return (chain: string | undefined) => chain === undefined || modeOwns(keep, table, chain) || used.has(chain);
  };
  const part = (table: "filter" | "nat") => ({
    chains: new Map([...observed.chains[table]].filter(([chain]) => !stays(table)(chain))),
    jumps: observed.jumps[table].filter((line) => !stays(table)(jumpOf(line))),
  });
  const [filter, nat] = [part("filter"), part("nat")];
  return {
    ...observed,
    chains: { filter: filter.chains, nat: nat.chains },
    jumps: { filter: filter.jumps, nat: nat.jumps },
  };
}

const builtIn = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/** Targets of rules in chains that are neither ours nor built in, e.g. KUBE-MARK-MASQ of a port mapper. */
export function usedByOthers(table: SavedTable): ReadonlyMap<string, string> {
  const used = new Map<string, string>();
  for (const [chain, rules] of table.chains) {
    const ours =
      builtIn.includes(chain) || tables.some((t) => modeOwns("iptables", t, chain) || modeOwns("ipvs", t, chain));
    if (ours || chain === sharedChain) continue;
    for (const line of linesOf(rules)) used.set(jumpOf(line) ?? "", chain);
  }
  return used;
}
