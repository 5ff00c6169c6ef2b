/** `kube-proxy explain`: where one packet goes on this node and why, or one page about a Service. */
import { ConfigError, type Fault, fault } from "../config/config-error.ts";
import { explainPacket } from "../explain/explain.ts";
import { checkObjects, type Presence } from "../explain/live.ts";
import { objectText } from "../explain/object-text.ts";
import { type Destination, type Here, hereOf, readDestination, readSource } from "../explain/packet.ts";
import { explainService } from "../explain/service-page.ts";
import type { Verdict } from "../explain/verdict.ts";
import { localAddresses } from "../host/addresses.ts";
import { runSteps } from "../host/run.ts";
import type { Context } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import { familyOf } from "../model/ip.ts";
import type { Plan } from "../model/plan.ts";
import { makePlan } from "../model/planner.ts";
import type { CommandModule, Output } from "./commands.ts";
import { hanging, objectsOf, servicePageText, verdictText } from "./explain-text.ts";
import { type FlagTable, flag } from "./flag.ts";
import { outputFlag, outputOf } from "./output-flag.ts";
import { boolFlag, type ParsedFlags, strayWords, textFlag } from "./parse.ts";
import { findService } from "./service-name.ts";
import { assumedMachine, readSituation, type Situation } from "./situation.ts";
import { factFlags, situationFlags } from "./situation-flags.ts";
import { thisMachine } from "./this-machine.ts";
import { Trouble } from "./trouble.ts";

const packet = "The packet";

const table: FlagTable = [
  flag(packet, "from", "string", "Where it comes from: an address, or pod, node or external for any such.", {
    default: "pod",
    placeholder: "who",
  }),
  flag(packet, "to", "string", "Where it is sent: IP:port[/protocol], or a Service as namespace/name[:port].", {
    placeholder: "where",
  }),
  flag(packet, "live", "bool", "Look on this host whether each kernel object named is really there. Needs root."),
  ...situationFlags.filter(({ topic }) => topic.startsWith("What")),
  ...factFlags,
  outputFlag,
  ...situationFlags.filter(({ topic }) => !topic.startsWith("What")),
];

export const command: CommandModule = {
  flags: table,
  usage: "--from WHO --to WHERE [flags] | service NAMESPACE/NAME [flags]",
  about:
    "Walks the decision for one packet on this node: which Service and port it meets, which traffic policy, source ranges, " +
    "affinity, topology hints, masquerading and endpoints decide, or what drops or rejects it and why; each step with the " +
    "kernel objects that implement it. `explain service` prints one page about a Service: addresses, endpoints used and left " +
    "out with reasons, policies, health check, conflicts. Without --live nothing of this host is looked at. " +
    "Exit codes: 0 explained, 1 with --live something named is not in the kernel, 2 it could not be told.",
  trouble: 2,
  run: async (parsed, output) => {
    const [word, name, ...more] = parsed.words;
    if (word === "service" || word === "svc") return servicePage(name, more, parsed, output);
    const stray = strayWords(parsed.words, ["service"]);
    const faults = stray.length > 0 ? stray : faultsOfTo(parsed);
    if (faults.length > 0) throw new ConfigError(faults);
    return packetVerdict(parsed, output);
  },
};

// --- internal ---

const serviceForm = /^((?![\d.]+\/)[a-z0-9.-]+\/[a-z0-9.-]+)(?::([a-z0-9-]+))?$/;

/** Said before any object is read. */
function faultsOfTo(parsed: ParsedFlags): readonly Fault[] {
  const text = textFlag(parsed, "to");
  if (text === "") return [fault("", "--to", undefined, "is needed: IP:port[/protocol] or namespace/name[:port]")];
  const read = readDestination(text);
  return read.ok || serviceForm.test(text) ? [] : [fault("", "--to", undefined, read.problem)];
}

async function servicePage(
  name: string | undefined,
  more: readonly string[],
  parsed: ParsedFlags,
  output: Output,
): Promise<number> {
  if (name === undefined) throw new ConfigError([fault("", "explain service", undefined, "needs namespace/name")]);
  const faults = strayWords(more);
  if (faults.length > 0) throw new ConfigError(faults);
  const form = outputOf(parsed);
  const situation = await situationOf(parsed, output);
  const key = findService(name, situation.objects);
  const page = explainService(
    key,
    situation.contexts.map((context) => ({ context, plan: makePlan(situation.snapshot, context) })),
  );
  if (page === undefined) throw new Trouble(`${key} has no cluster IP of a family that this node has`);
  output.out(
    form === "json"
      ? `${JSON.stringify({ ...page, assumptions: situation.assumptions }, undefined, 2)}\n`
      : `${servicePageText(page, output.width)}${assumed(situation, output.width)}`,
  );
  return 0;
}

async function packetVerdict(parsed: ParsedFlags, output: Output): Promise<number> {
  const form = outputOf(parsed);
  const live = boolFlag(parsed, "live");
  if (live && process.getuid?.() !== 0)
    throw new Trouble("--live reads the kernel's rules, which needs root: run it with sudo");
  const situation = await situationOf(parsed, output);
  const { to, context, plan } = destinationOf(textFlag(parsed, "to"), situation);
  const here = hereIn(situation, context, live ? (await localAddresses()).map(({ ip }) => ip) : []);
  const from = readSource(textFlag(parsed, "from", "pod"), to, plan, context, here);
  if (!from.ok) throw new ConfigError([fault("", "--from", undefined, from.problem)]);
  const verdict = explainPacket(plan, context, { from: from.value, to }, here);
  const presence = live ? await lookFor(verdict, context) : undefined;
  output.out(
    form === "json"
      ? jsonText(verdict, presence, situation, context)
      : `${verdictText(verdict, presence, output.width)}${assumed(situation, output.width, context.family.name)}`,
  );
  const missing = [...(presence?.values() ?? [])].filter(({ state }) => state === "missing");
  if (missing.length > 0 && form === "text")
    output.err(
      `kube-proxy explain: ${missing.length} of the ${presence?.size} objects named are not in the kernel: is kube-proxy running in ${context.mode} mode? \`kube-proxy diff\` shows all differences\n`,
    );
  return missing.length > 0 ? 1 : 0;
}

function situationOf(parsed: ParsedFlags, output: Output): Promise<Situation> {
  const live = boolFlag(parsed, "live");
  const machine = (config: Situation["config"]) =>
    live ? thisMachine("explain", config, output) : assumedMachine(parsed, config);
  return readSituation({ name: "explain", table, parsed, output, machine });
}

interface Aim {
  readonly to: Destination;
  readonly context: Context;
  readonly plan: Plan;
}

/** Throws ConfigError, or Trouble for a Service or port that is not there. */
function destinationOf(text: string, { contexts, snapshot, objects }: Situation): Aim {
  const read = readDestination(text);
  if (read.ok) {
    const context = contexts.find(({ family }) => family.name === familyOf(read.value.ip));
    if (context === undefined)
      throw new Trouble(`${read.value.ip} is ${familyOf(read.value.ip)}, which --family or this host leaves out`);
    return { to: read.value, context, plan: makePlan(snapshot, context) };
  }
  const [, name = "", wanted] = serviceForm.exec(text) ?? [];
  const key = findService(name, objects);
  for (const context of contexts) {
    const plan = makePlan(snapshot, context);
    const ports = plan.services.get(key)?.ports ?? [];
    const port = wanted === undefined ? ports[0] : ports.find((p) => p.portName === wanted || `${p.port}` === wanted);
    if (port !== undefined)
      return { to: { ip: port.clusterIP, port: port.port, protocol: port.protocol }, context, plan };
  }
  const known = snapshot.services.get(key)?.service.ports.map((p) => (p.name === "" ? `${p.port}` : p.name)) ?? [];
  throw new Trouble(`${key} has no port ${wanted ?? ""} here; it has: ${known.join(", ") || "none"}`);
}

/** `found`: the addresses of this machine, where it was asked. */
function hereIn({ snapshot, contexts }: Situation, context: Context, found: readonly string[]): Here {
  const known = [context, ...contexts].flatMap((one) => [...hereOf(one).localAddresses]);
  // Without a look at the machine its Node says what it has.
  const own = found.length > 0 ? found : (snapshot.node?.addresses ?? []);
  return { localAddresses: new Set([...known, ...own]), podCIDRs: snapshot.node?.podCIDRs ?? [] };
}

async function lookFor(verdict: Verdict, { family }: Context): Promise<ReadonlyMap<string, Presence>> {
  const { steps, parse } = checkObjects(objectsOf(verdict), family);
  const found = parse(await runSteps(steps));
  return new Map(found.map((presence) => [objectText(presence.object, family), presence]));
}

function jsonText(
  verdict: Verdict,
  presence: ReadonlyMap<string, Presence> | undefined,
  { assumptions, warnings }: Situation,
  { family }: Context,
): string {
  const steps = verdict.steps.map((step) => ({
    ...step,
    objects: step.objects.map((object) => {
      const text = objectText(object, family);
      const found = presence?.get(text);
      return { ...object, text, ...(found === undefined ? {} : { state: found.state, detail: found.detail }) };
    }),
  }));
  return `${JSON.stringify({ ...verdict, steps, assumptions, warnings }, undefined, 2)}\n`;
}

/** Remarks about the other family are left out when only one was asked about. */
function assumed({ assumptions, warnings }: Situation, width: number, family?: FamilyName): string {
  const other = family === "IPv4" ? "IPv6 " : family === "IPv6" ? "IPv4 " : undefined;
  const notes = warnings.filter((line) => other === undefined || !line.includes(other));
  const lines = [...assumptions.map((line) => `assumed: ${line}`), ...notes.map((line) => `note: ${line}`)];
  return lines.length === 0 ? "" : `\n${lines.flatMap((line) => hanging(line, width)).join("\n")}\n`;
}
