/** Removes whatever kube-proxy in iptables mode, of any version, left in one family; rules of others stay. */
import type { Context } from "../../model/context.ts";
import type { Step } from "../../model/step.ts";
import { asVerb } from "../../tools/iptables-restore.ts";
import { jumpOf, linesOf, type SavedTable } from "../../tools/iptables-save.ts";
import type { Reading } from "../backend.ts";
import { changeSteps, noChanges, type TableChanges } from "./changes.ts";
import { deletionOrder } from "./diff.ts";
import { counters } from "./fixed.ts";
import { canary, isServiceChain, sharedChain, type Table } from "./names.ts";
import type { IptablesObserved } from "./observation.ts";

/** Fixed chains by table, each before those it jumps to; those that ipvs mode makes too are told by `alsoIpvs`. */
const fixedChains: Readonly<Record<Table, readonly string[]>> = {
  mangle: [canary],
  filter: ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-FORWARD", "KUBE-PROXY-FIREWALL", canary],
  nat: ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", canary],
};
const alsoIpvs: Readonly<Record<Table, readonly string[]>> = {
  mangle: [],
  filter: ["KUBE-FORWARD", "KUBE-PROXY-FIREWALL"],
  nat: ["KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-MARK-MASQ"],
};

/**
 * Jumps and dispatch chains in one transaction, then the rest, each chain before those it jumps to. Without `observed`
 * nothing but the counters: what there is to remove must have been read. In ipvs mode the chains of that mode are kept.
 */
export function cleanup(context: Context, observed?: IptablesObserved): readonly Step[] {
  if (observed === undefined) return removeCounters(context);
  const keep = (table: Table): readonly string[] => (context.mode === "ipvs" ? alsoIpvs[table] : []);
  const removal = (table: Table): TableChanges => removeTable(table, observed[table], keep(table));
  const changes = { mangle: removal("mangle"), filter: removal("filter"), nat: removal("nat") };
  return [...changeSteps(changes, context), ...removeCounters(context)];
}

/** Whether a chain is there that only iptables mode makes. */
export function leftovers(context: Context): Reading<boolean> {
  const look = (table: Table, chain: string): Step => ({
    kind: "exec",
    tool: context.family.iptables,
    args: ["-w", "5", "-t", table, "-S", chain],
    mayFail: true,
    about: `look for ${chain} in the ${table} table`,
  });
  return {
    steps: [look("filter", "KUBE-EXTERNAL-SERVICES"), look("nat", canary)],
    parse: (results) => results.some((result) => result.exitCode === 0),
  };
}

// --- internal ---

function removeCounters(context: Context): Step[] {
  if (!context.facts.nfacct) return [];
  // Refused while the other family's rules use it; the last family takes it away.
  return Object.values(counters).map((name) => ({
    kind: "exec",
    tool: "nfacct",
    args: ["delete", name],
    mayFail: true,
    about: `packet counter ${name}`,
  }));
}

function removeTable(table: Table, seen: SavedTable, keep: readonly string[]): TableChanges {
  const fixed = fixedChains[table].filter((name) => seen.chains.has(name) && !keep.includes(name));
  const marks = ["KUBE-MARK-MASQ"].filter((name) => table === "nat" && seen.chains.has(name) && !keep.includes(name));
  const service = table === "nat" ? deletionOrder([...seen.chains.keys()].filter(isServiceChain)) : [];
  const own = new Set([...fixed, ...service, ...marks]);
  const { jumps, used } = references(seen, own);
  // Others' chains that jump to ours (KUBE-MARK-MASQ is popular with port mappers) would be broken: that chain stays.
  const stale = [...fixed, ...service, ...marks].filter((name) => !used.has(name));
  const late = [...jumps, ...(table === "filter" ? sharedRules(seen) : [])];
  return stale.length + late.length === 0 ? noChanges : { early: [], late, stale, refuses: false };
}

interface References {
  /** Deletions of rules in built-in chains. */
  readonly jumps: readonly string[];
  /** Chains of ours that rules in other people's chains lead to. */
  readonly used: ReadonlySet<string>;
}

function references(seen: SavedTable, own: ReadonlySet<string>): References {
  const jumps: string[] = [];
  const used = new Set<string>();
  for (const [name, rules] of seen.chains) {
    if (rules === "" || own.has(name)) continue;
    for (const line of linesOf(rules)) {
      const target = jumpOf(line);
      if (target === undefined || !own.has(target)) continue;
      if (builtIn.has(name)) jumps.push(asVerb("-D", line));
      else used.add(target);
    }
  }
  return { jumps, used };
}

const builtIn: ReadonlySet<string> = new Set(["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"]);

/** Our rule in KUBE-FIREWALL; the chain and the jumps to it too when nobody else's rule is in it. */
function sharedRules(seen: SavedTable): string[] {
  const rules = seen.chains.get(sharedChain);
  if (rules === undefined) return [];
  const ours = (line: string): boolean => line.includes('"block incoming localnet connections"');
  const lines = linesOf(rules);
  const removed = lines.filter(ours).map((line) => asVerb("-D", line));
  if (!lines.every(ours)) return removed;
  const { jumps } = references(seen, new Set([sharedChain]));
  return [...removed, ...jumps, `-X ${sharedChain}\n`];
}
