/** `kube-proxy diff`: what the kernel holds against what it should hold, by chain, set and element, as a unified diff. */
import { backendOf } from "../app/modes.ts";
import { ConfigError } from "../config/config-error.ts";
import { runSteps } from "../host/run.ts";
import { readSysctl } from "../host/sysctl.ts";
import type { Context } from "../model/context.ts";
import { makePlan } from "../model/planner.ts";
import type { Snapshot } from "../model/snapshot.ts";
import type { SysctlStep } from "../model/step.ts";
import { type Section, sorted } from "../tools/section.ts";
import type { CommandModule } from "./commands.ts";
import { dumpSections, readDump } from "./kernel-dump.ts";
import { outputFlag, outputOf } from "./output-flag.ts";
import { strayWords } from "./parse.ts";
import { type Progress, showProgress } from "./progress.ts";
import { openScratchNamespace, type ScratchNamespace } from "./scratch-namespace.ts";
import { readSituation, type Situation } from "./situation.ts";
import { situationFlags } from "./situation-flags.ts";
import { thisMachine } from "./this-machine.ts";
import { commandLog, Trouble } from "./trouble.ts";
import { compareSections, type SectionDifference, unifiedText } from "./unified-diff.ts";

const table = [...situationFlags, outputFlag];

export const command: CommandModule = {
  flags: table,
  usage: "[flags]",
  about:
    "Compares what the kernel holds with what it should hold, by chain, set and element: lines with - are in the kernel only, " +
    "lines with + are missing there. Both sides are printed by the same tools: the desired rules are loaded into an empty network namespace and read back. " +
    "Nothing of this host is changed. Rules of others, session affinity, draining ipvs servers and emptied nftables chains that are about to go are passed over. Needs root. " +
    "Exit codes: 0 equal, 1 different, 2 it could not be told.",
  trouble: 2,
  run: async (parsed, output) => {
    const faults = strayWords(parsed.words);
    if (faults.length > 0) throw new ConfigError(faults);
    const form = outputOf(parsed);
    if (process.getuid?.() !== 0) throw new Trouble("reading the kernel's rules needs root: run it with sudo");
    const machine = (config: Situation["config"]) => thisMachine("diff", config, output);
    const progress = showProgress(output);
    progress.say("Reading the objects");
    const ask = { name: "diff", table, parsed, output, machine, guessNode: false };
    const situation = await readSituation(ask).finally(progress.done);
    const { snapshot, objects } = situation;
    if (snapshot.node === undefined)
      commandLog("diff", output).warn(
        `there is no Node ${objects.nodeName} in ${objects.source}: endpoints on this node count as remote; give the --hostname-override that the running proxy has`,
      );
    const found = await compareAll(situation, progress).finally(progress.done);
    output.out(form === "json" ? jsonText(situation, found) : found.map(familyText).join(""));
    const equal = found.every(({ differences }) => differences.length === 0);
    if (form === "text" && !equal) output.err(`kube-proxy diff: ${summary(found)}\n`);
    return equal ? 0 : 1;
  },
};

// --- internal ---

interface FamilyDifference {
  readonly context: Context;
  readonly differences: readonly SectionDifference[];
}

async function compareAll({ contexts, snapshot }: Situation, progress: Progress): Promise<readonly FamilyDifference[]> {
  const scratch = await openScratchNamespace();
  try {
    const found: FamilyDifference[] = [];
    const sysctls = new Set<string>();
    for (const context of contexts) found.push(await compareFamily(context, snapshot, { scratch, progress, sysctls }));
    return found;
  } finally {
    scratch.close();
  }
}

interface Comparison {
  readonly scratch: ScratchNamespace;
  readonly progress: Progress;
  /** Those that another family has compared; grows. */
  readonly sysctls: Set<string>;
}

async function compareFamily(
  base: Context,
  snapshot: Snapshot,
  { scratch, progress, sysctls: told }: Comparison,
): Promise<FamilyDifference> {
  const { name } = base.family;
  progress.say(`${name}: reading the kernel`);
  const kernel = await readDump(base, runSteps);
  // Whether packets are counted was found out when the rules were written; trying it here would change the kernel.
  const nfacct = base.mode === "iptables" && [...kernel.values()].some((text) => text.includes("--nfacct-name"));
  const context: Context = { ...base, facts: { ...base.facts, nfacct } };
  const backend = backendOf(context.mode);
  const setup = backend.setup(context);
  const reading = backend.observe(context);
  await scratch.run(setup);
  const observed = reading.parse(await scratch.run(reading.steps));
  const wanted = backend.desired(makePlan(snapshot, context), context, undefined);
  progress.say(`${name}: loading the desired rules of ${snapshot.services.size} Services into an empty namespace`);
  await scratch.run(backend.diff({ kind: "observed", observed }, wanted, context, 0).steps);
  progress.say(`${name}: reading them back and comparing`);
  const sections = dumpSections(kernel, await readDump(context, scratch.run), context);
  const sysctls = sysctlSections(
    setup.flatMap((step) => (step.kind === "sysctl" && !told.has(step.name) ? [step] : [])),
  );
  for (const step of setup) if (step.kind === "sysctl") told.add(step.name);
  return {
    context,
    differences: compareSections([...sections.kernel, ...sysctls.kernel], [...sections.desired, ...sysctls.desired]),
  };
}

/** Those that this kernel has. */
function sysctlSections(steps: readonly SysctlStep[]): Readonly<Record<"kernel" | "desired", readonly Section[]>> {
  const pairs = steps.flatMap(({ name, value, when }) => {
    const now = readSysctl(name);
    if (now === undefined) return [];
    const label = name.replaceAll("/", ".");
    return [[`${label} = ${now}`, `${label} = ${when === "below" ? Math.max(now, value) : value}`] as const];
  });
  if (pairs.length === 0) return { kernel: [], desired: [] };
  return {
    kernel: [
      sorted(
        "sysctls",
        pairs.map(([now]) => now),
      ),
    ],
    desired: [
      sorted(
        "sysctls",
        pairs.map(([, wanted]) => wanted),
      ),
    ],
  };
}

function familyText({ context, differences }: FamilyDifference): string {
  const family = context.family.name;
  return differences.map((one) => unifiedText(one, `kernel/${family}`, `desired/${family}`)).join("");
}

function summary(found: readonly FamilyDifference[]): string {
  const all = found.flatMap(({ differences }) => differences);
  const sum = (pick: (one: SectionDifference) => number): number => all.reduce((total, one) => total + pick(one), 0);
  const places = all.length === 1 ? "1 chain or set differs" : `${all.length} chains and sets differ`;
  const lines = (count: number): string => (count === 1 ? "1 line" : `${count} lines`);
  return `${places}: ${lines(sum((one) => one.added))} missing in the kernel, ${lines(sum((one) => one.removed))} there that should not be`;
}

function jsonText({ contexts, objects }: Situation, found: readonly FamilyDifference[]): string {
  const families = found.map(({ context, differences }) => ({
    family: context.family.name,
    equal: differences.length === 0,
    differences: differences.map(({ name, lines }) => ({
      name,
      missing: lines.filter((line) => line.startsWith("+")).map((line) => line.slice(1)),
      extra: lines.filter((line) => line.startsWith("-")).map((line) => line.slice(1)),
    })),
  }));
  const body = { mode: contexts[0]?.mode, node: objects.nodeName, source: objects.source, families };
  return `${JSON.stringify(body, undefined, 2)}\n`;
}
