/** What can be cleaned up, one kind of kernel object after the other: how to look for it and how to remove it. */
import { counters } from "../backends/iptables/fixed.ts";
import { ipvs } from "../backends/ipvs/index.ts";
import { device, setsOf } from "../backends/ipvs/names.ts";
import type { IpvsObserved } from "../backends/ipvs/state.ts";
import { nftables } from "../backends/nftables/index.ts";
import type { Context, ProxyMode } from "../model/context.ts";
import type { ExecStep, Step } from "../model/step.ts";
import { TABLE } from "../tools/nft.ts";
import { foundChains, observeChains, removeChains, usedByOthers } from "./cleanup-chains.ts";
import { isIptables, type Tools } from "./cleanup-variant.ts";
import type { RunSteps } from "./modes.ts";

/** One kind of object in one place. */
export interface Part {
  /** For people: `iptables-nft`, `ipsets`. */
  readonly place: string;
  /** What is there of ours, e.g. `nat KUBE-SERVICES`; tools that are missing find nothing. */
  look(): Promise<readonly string[]>;
  /** Throws CommandError. */
  remove(): Promise<void>;
  /** Why something could not be removed, where that can be told. */
  reason?(item: string): string | undefined;
}

export interface PartInputs {
  /** One a family. */
  readonly contexts: readonly Context[];
  readonly tools: readonly Tools[];
  /** Whether a tool is installed. */
  readonly present: (tool: string) => boolean;
  readonly run: RunSteps;
  /** The mode whose objects stay; undefined: all go. */
  readonly keep: ProxyMode | undefined;
}

/** In the order of removal: rules before the sets and counters they use; virtual servers before their addresses. */
export function partsOf(inputs: PartInputs): readonly Part[] {
  const { contexts, tools, keep } = inputs;
  const parts = tools.flatMap((one) => contexts.map((context) => chainPart(inputs, one, context)));
  if (keep !== "ipvs") parts.push(...ipvsParts(inputs));
  if (keep !== "nftables") parts.push(...contexts.map((context) => tablePart(inputs, context)));
  if (keep !== "iptables") parts.push(counterPart(inputs));
  return parts;
}

// --- internal ---

function chainPart({ run, keep }: PartInputs, tools: Tools, context: Context): Part {
  let used: ReadonlyMap<string, string> = new Map();
  const look = async () => {
    const seen = await observeChains(context, tools, run);
    used = new Map([...usedByOthers(seen.nat), ...usedByOthers(seen.filter)]);
    return foundChains(seen, keep);
  };
  return {
    place: `${tools.prefix(context.family)} chains`,
    look,
    remove: async () => {
      const seen = await observeChains(context, tools, run);
      await removeChains(context, seen, keep, tools, run);
    },
    reason: (item) => {
      const by = used.get(item.slice(item.indexOf(" ") + 1));
      return by === undefined ? undefined : `a rule in chain ${by}, which is not ours, leads to it`;
    },
  };
}

/** Virtual servers can be told to be ours by sets and addresses only, so all three are read before any of them goes. */
function ipvsParts({ contexts, run, keep, present }: PartInputs): readonly Part[] {
  let read: ReadonlyMap<Context, IpvsObserved> | undefined;
  const observeAll = async () => {
    if (read === undefined) {
      const entries: [Context, IpvsObserved][] = [];
      for (const context of contexts)
        if (await hasIpvs(context, run)) entries.push([context, await observe(context, run)]);
      read = new Map(entries);
    }
    return read;
  };
  const removal = async (tools: readonly string[]) => {
    for (const [context, observed] of await observeAll())
      await run(ipvsSteps(context, observed).filter((step) => step.kind === "exec" && tools.includes(step.tool)));
  };
  const servers = async () =>
    [...(await observeAll())].flatMap(([context, observed]) => ownServers(ipvsSteps(context, observed)));
  let before: readonly string[] | undefined;
  const output = async (tool: string, ...args: string[]) => {
    if (!present(tool)) return "";
    const results = await run([exec(tool, args, "look for leftovers of ipvs mode")]);
    return results[0]?.exitCode === 0 ? results[0].stdout : "";
  };
  const names = new Set(contexts.flatMap(({ family }) => setsOf(family).map((set) => set.name)));
  return [
    {
      place: "virtual servers",
      look: async () => {
        before ??= await servers();
        if (before.length === 0) return [];
        const now = new Set(linesOf(await output("ipvsadm", "-Sn")).map(serverWords));
        return before.filter((server) => now.has(server));
      },
      remove: async () => {
        if (keep !== undefined) await run([drainPause]);
        await removal(["ipvsadm"]);
      },
    },
    {
      place: "ipsets",
      look: async () => linesOf(await output("ipset", "-n", "list")).filter((name) => names.has(name)),
      remove: () => removal(["ipset"]),
      reason: () => "a rule still uses it",
    },
    {
      place: "devices",
      look: async () => ((await output("ip", "-o", "link", "show", "dev", device)) === "" ? [] : [device]),
      remove: () => removal(["ip"]),
    },
  ];
}

/** New connections take the new mode's rules already; those that are just being made through IPVS get time to end. */
const drainPause: Step = { kind: "pause", ms: 5_000, about: "let short connections through IPVS end" };

/** A clean-up that was cut short may have left sets without the device, or the other way round. */
async function hasIpvs(context: Context, run: RunSteps): Promise<boolean> {
  const reading = ipvs.leftovers?.(context);
  if (reading?.parse(await run(reading.steps)) === true) return true;
  const [sets] = await run([exec("ipset", ["-n", "list"], "look for leftovers of ipvs mode")]);
  const own = setsOf(context.family).map((set) => set.name);
  return linesOf(sets?.stdout ?? "").some((name) => own.includes(name));
}

async function observe(context: Context, run: RunSteps): Promise<IpvsObserved> {
  const reading = ipvs.observe(context);
  const absent = { exitCode: -1, stdout: "", stderr: "" };
  const results = [];
  for (const step of reading.steps) results.push(isIptables(step) ? absent : ((await run([step]))[0] ?? absent));
  return reading.parse(results);
}

/** The chains are the other parts' job. */
function ipvsSteps(context: Context, observed: IpvsObserved): readonly Step[] {
  return ipvs.cleanup(context, observed).filter((step) => !isIptables(step));
}

/** `-t 10.96.0.1:443` of every server that the steps delete. */
function ownServers(steps: readonly Step[]): readonly string[] {
  const lines = steps.flatMap((step) => (step.kind === "exec" && step.tool === "ipvsadm" ? (step.input ?? []) : []));
  return linesOf(lines.join("")).map(serverWords);
}

function serverWords(line: string): string {
  return line.split(" ").slice(1, 3).join(" ");
}

function exec(tool: string, args: readonly string[], about: string): ExecStep {
  return { kind: "exec", tool, args, mayFail: true, about };
}

function linesOf(text: string): readonly string[] {
  return text.split("\n").filter((line) => line !== "");
}

function tablePart({ run, present }: PartInputs, context: Context): Part {
  const { nft } = context.family;
  // Names of tables only: listing what is in them crashes older nft on rules of newer ones.
  const list: ExecStep = {
    kind: "exec",
    tool: "nft",
    args: ["list", "tables", nft],
    mayFail: true,
    about: "look for our nftables table",
  };
  return {
    place: "nftables tables",
    look: async () => {
      if (!present("nft")) return [];
      const [result] = await run([list]);
      return linesOf(result?.stdout ?? "").includes(`table ${nft} ${TABLE}`) ? [`${nft} ${TABLE}`] : [];
    },
    remove: async () => {
      await run(nftables.cleanup(context));
    },
  };
}

function counterPart({ run, present }: PartInputs): Part {
  const step = (args: readonly string[]): ExecStep => ({
    kind: "exec",
    tool: "nfacct",
    args,
    mayFail: true,
    about: "packet counters",
  });
  return {
    place: "nfacct counters",
    look: async () => {
      if (!present("nfacct")) return [];
      const [result] = await run([step(["list"])]);
      return Object.values(counters).filter((name) => result?.stdout.includes(`= ${name};`));
    },
    remove: async () => {
      await run(Object.values(counters).map((name) => step(["delete", name])));
    },
    reason: () => "a rule still uses it",
  };
}
