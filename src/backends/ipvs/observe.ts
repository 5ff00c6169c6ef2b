/** Reads what the kernel holds of ipvs mode in one family. Tools that are missing or find nothing mean: nothing is there. */
import type { Context } from "../../model/context.ts";
import type { Family } from "../../model/family.ts";
import { familyOf } from "../../model/ip.ts";
import type { ExecStep, StepResult } from "../../model/step.ts";
import { parseAddresses } from "../../tools/ip-address.ts";
import { parseSetLine } from "../../tools/ipset.ts";
import { saveStep } from "../../tools/iptables-restore.ts";
import { jumpOf, linesOf, parseSave } from "../../tools/iptables-save.ts";
import { parseConnections, parseServerLine, serverKey } from "../../tools/ipvsadm.ts";
import type { Reading } from "../backend.ts";
import { chains, device, setName, setsOf, type Table } from "./names.ts";
import type { Draining, IpvsObserved, IpvsState, ObservedReal, ObservedServer, ObservedSet } from "./state.ts";

/** Device, addresses, virtual servers, sets and chains; a tool that fails counts as nothing found. */
export function observe(context: Context): Reading<IpvsObserved> {
  const { family } = context;
  const steps = observeSteps(family);
  return { steps, parse: (results) => parseObserved(family, results) };
}

/** Connection counts of the servers that drain; undefined when none does. */
export function refresh(state: IpvsState): Reading<IpvsState> | undefined {
  if (state.draining.size === 0) return undefined;
  const step: ExecStep = {
    kind: "exec",
    tool: "ipvsadm",
    args: ["-Ln", "--exact"],
    mayFail: true,
    about: "connections of draining servers",
  };
  return { steps: [step], parse: ([result]) => withConnections(state, result) };
}

/** Whether there is anything of this family to clean. Loads no module but ip_set. */
export function leftovers({ family }: Context): Reading<boolean> {
  const look = (tool: string, ...args: readonly string[]): ExecStep => {
    return { kind: "exec", tool, args, mayFail: true, about: "look for leftovers of ipvs mode" };
  };
  const steps = [
    look("ip", "-o", "link", "show", "dev", device),
    look("ipset", "-n", "list", setName("IPVS-IPS", family)),
  ];
  return { steps, parse: (results) => results.some((r) => r.exitCode === 0) };
}

// --- internal ---

function observeSteps(family: Family): readonly ExecStep[] {
  const version = family.name === "IPv4" ? "-4" : "-6";
  const read = (tool: string, args: readonly string[], about: string): ExecStep => ({
    kind: "exec",
    tool,
    args,
    mayFail: true,
    about,
  });
  return [
    read("ip", ["-o", "link", "show", "dev", device], `read ${device}`),
    read("ip", ["-o", version, "addr", "show", "dev", device], `read the addresses of ${device}`),
    read("ipvsadm", ["-Sn"], "read the virtual servers"),
    read("ipset", ["save"], "read the sets"),
    { ...saveStep(family, "nat"), mayFail: true },
    { ...saveStep(family, "filter"), mayFail: true },
  ];
}

function parseObserved(family: Family, results: readonly StepResult[]): IpvsObserved {
  const text = (i: number): string => (results[i]?.exitCode === 0 ? results[i].stdout : "");
  const filter = observeTable("filter", text(5));
  const nat = observeTable("nat", text(4));
  return {
    device: results[0]?.exitCode === 0,
    addresses: parseAddresses(text(1)),
    servers: parseServers(text(2), family),
    sets: parseSets(text(3), family),
    chains: { filter: filter.chains, nat: nat.chains },
    jumps: { filter: filter.jumps, nat: nat.jumps },
  };
}

function parseServers(output: string, family: Family): ReadonlyMap<string, ObservedServer> {
  const servers = new Map<string, ObservedServer & { readonly reals: Map<string, ObservedReal> }>();
  for (const text of output.split("\n")) {
    const line = parseServerLine(text);
    if (line === undefined || familyOf(line.server.ip) !== family.name) continue;
    const key = serverKey(line.server);
    if (line.kind === "-A") servers.set(key, { id: line.server, options: line.options, reals: new Map() });
    if (line.kind === "-a") servers.get(key)?.reals.set(line.real, { weight: line.weight, forward: line.forward });
  }
  return servers;
}

function parseSets(output: string, family: Family): ReadonlyMap<string, ObservedSet> {
  const own = new Set(setsOf(family).map((set) => set.name));
  const sets = new Map<string, ObservedSet & { readonly entries: Set<string> }>();
  for (const text of output.split("\n")) {
    const line = parseSetLine(text);
    if (line?.kind === "create" && own.has(line.set.name))
      sets.set(line.set.name, { set: line.set, entries: new Set() });
    if (line?.kind === "add") sets.get(line.name)?.entries.add(line.entry);
  }
  return sets;
}

function observeTable(
  table: Table,
  output: string,
): { readonly chains: ReadonlyMap<string, number>; readonly jumps: readonly string[] } {
  const saved = parseSave(output).get(table)?.chains ?? new Map<string, string>();
  const own = new Map<string, number>();
  const jumps: string[] = [];
  for (const [name, text] of saved) {
    if (chains[table].includes(name)) own.set(name, linesOf(text).length);
    else if (!name.startsWith("KUBE-")) {
      jumps.push(...linesOf(text).filter((line) => chains[table].includes(jumpOf(line) ?? "")));
    }
  }
  return { chains: own, jumps };
}

/** The kernel's list passes over servers while others are added and removed (the other family's, say): one miss is none. */
const missesUntilGone = 3;

/** When nothing could be read, nothing is known. */
function withConnections(state: IpvsState, result: StepResult | undefined): IpvsState {
  if (result?.exitCode !== 0) return state;
  const counts = parseConnections(result.stdout);
  const draining = new Map<string, Draining>();
  for (const [key, entry] of state.draining) {
    const connections = counts.get(key);
    const missed = connections === undefined ? entry.missed + 1 : 0;
    if (missed < missesUntilGone) draining.set(key, { ...entry, connections, missed });
  }
  return { ...state, draining };
}
