/** What a mode has in the kernel, as sections: which tools to ask, and which of what they say is ours. */
import { dispatchChains, isServiceChain, sharedChain, type Table, tables } from "../backends/iptables/names.ts";
import { device, chains as ipvsChains, tables as ipvsTables, setsOf } from "../backends/ipvs/names.ts";
import type { Context } from "../model/context.ts";
import { cidrContains } from "../model/ip.ts";
import type { ExecStep, Step, StepResult } from "../model/step.ts";
import { iptablesSections } from "../tools/iptables-canonical.ts";
import { saveStep } from "../tools/iptables-restore.ts";
import { emptyTable, linesOf, parseSave, type SavedTable } from "../tools/iptables-save.ts";
import { addressSections, ipsetSections, ipvsSections } from "../tools/ipvs-canonical.ts";
import { TABLE } from "../tools/nft.ts";
import { nftSections } from "../tools/nft-canonical.ts";
import type { Section } from "../tools/section.ts";
import { Trouble } from "./trouble.ts";

/** Outputs by what was asked: `nft`, `ipset`, … */
export type Dump = ReadonlyMap<string, string>;

/** Reads all that the mode could have in one family. Throws Trouble when that does not work. */
export async function readDump(
  context: Context,
  run: (steps: readonly Step[]) => Promise<readonly StepResult[]>,
): Promise<Dump> {
  const steps = dumpSteps(context);
  const results = await run(steps);
  return new Map(steps.map((step, i) => [askedFor(step), answer(step, results[i])]));
}

/** Both sides cut into sections; what is ours is told by what is desired. */
export function dumpSections(
  kernel: Dump,
  desired: Dump,
  context: Context,
): { readonly kernel: readonly Section[]; readonly desired: readonly Section[] } {
  switch (context.mode) {
    case "nftables": {
      const wanted = nftSections(desired.get("nft") ?? "");
      return { kernel: withoutCondemned(nftSections(kernel.get("nft") ?? ""), wanted), desired: wanted };
    }
    case "iptables": {
      const both = tables.map((table) => iptablesPair(table, kernel, desired));
      return { kernel: both.flatMap((pair) => pair.kernel), desired: both.flatMap((pair) => pair.desired) };
    }
    case "ipvs": {
      const both = ipvsTables.map((table) => ipvsPair(table, kernel, desired));
      return {
        kernel: [...both.flatMap((pair) => pair.kernel), ...ipvsOnly(kernel, context)],
        desired: [...both.flatMap((pair) => pair.desired), ...ipvsOnly(desired, context)],
      };
    }
  }
}

// --- internal ---

function dumpSteps({ mode, family }: Context): readonly ExecStep[] {
  const read = (tool: string, ...args: readonly string[]): ExecStep => {
    return { kind: "exec", tool, args, mayFail: true, timeoutMs: 120_000, about: args.join(" ") };
  };
  const save = (table: Table): ExecStep => ({ ...saveStep(family, table), mayFail: true, timeoutMs: 120_000 });
  switch (mode) {
    case "nftables":
      return [read("nft", "-s", "list", "table", family.nft, TABLE)];
    case "iptables":
      return tables.map(save);
    case "ipvs": {
      const addresses = read("ip", "-o", family.bits === 32 ? "-4" : "-6", "addr", "show", "dev", device);
      return [read("ipvsadm", "-Sn"), read("ipset", "save"), addresses, ...ipvsTables.map(save)];
    }
  }
}

/** Chains of Services that are gone are emptied at once and deleted a little later, when older kernels let them go. */
function withoutCondemned(kernel: readonly Section[], desired: readonly Section[]): readonly Section[] {
  const wanted = new Set(desired.map(({ name }) => name));
  return kernel.filter(({ name, lines }) => lines.length > 0 || !/^chain .*\//.test(name) || wanted.has(name));
}

interface Pair {
  readonly kernel: readonly Section[];
  readonly desired: readonly Section[];
}

function askedFor({ tool, args }: ExecStep): string {
  if (tool.endsWith("-save")) return `save ${args[args.indexOf("-t") + 1] ?? ""}`;
  return tool;
}

/** What is not there is no error; a tool that may not look, or is not there, is. */
function answer(step: ExecStep, result: StepResult | undefined): string {
  if (result?.exitCode === 0) return result.stdout;
  const said = (result?.stderr ?? "").trim().split("\n")[0] ?? "";
  const absent = /No such file or directory|does not exist/i.test(said) && step.tool !== "ipvsadm";
  if (absent) return "";
  const reason = result?.exitCode === -1 ? "it is not installed" : said;
  throw new Trouble(`cannot read the kernel: ${step.tool} (${step.about}): ${reason}`);
}

function savedTable(dump: Dump, table: string): SavedTable {
  return parseSave(dump.get(`save ${table}`) ?? "").get(table) ?? emptyTable;
}

function iptablesPair(table: (typeof tables)[number], kernel: Dump, desired: Dump): Pair {
  const wanted = savedTable(desired, table);
  const dispatch = new Set(dispatchChains.filter((one) => one.table === table).map(({ chain }) => chain));
  const owns = (chain: string): boolean =>
    isServiceChain(chain) || dispatch.has(chain) || (chain.startsWith("KUBE-") && wanted.chains.has(chain));
  const ours = linesOf(wanted.chains.get(sharedChain) ?? "").map((line) => line.trimEnd());
  const shared = wanted.chains.has(sharedChain) ? new Map([[sharedChain, new Set(ours)]]) : new Map<string, never>();
  const view = { table, owns, unordered: (chain: string) => dispatch.has(chain), shared };
  return { kernel: iptablesSections(savedTable(kernel, table), view), desired: iptablesSections(wanted, view) };
}

function ipvsPair(table: (typeof ipvsTables)[number], kernel: Dump, desired: Dump): Pair {
  const view = {
    table,
    owns: (chain: string) => ipvsChains[table].includes(chain),
    unordered: () => false,
    shared: new Map<string, ReadonlySet<string>>(),
  };
  const cut = (dump: Dump): readonly Section[] => iptablesSections(savedTable(dump, table), view);
  return { kernel: cut(kernel), desired: cut(desired) };
}

function ipvsOnly(dump: Dump, { family, ipvs }: Context): readonly Section[] {
  const own = new Set(setsOf(family).map(({ name }) => name));
  const foreign = (ip: string): boolean => ipvs.excludeCIDRs.some((cidr) => cidrContains(cidr, ip));
  return [
    ...ipvsSections(dump.get("ipvsadm") ?? "", family.name, foreign),
    ...ipsetSections(dump.get("ipset") ?? "", (name) => own.has(name)),
    ...addressSections(device, dump.get("ip") ?? ""),
  ];
}
