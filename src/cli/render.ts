/** `kube-proxy render`: what would be written to the kernel, in the tools' own language, without touching anything. */
import { backendOf } from "../app/modes.ts";
import { ConfigError } from "../config/config-error.ts";
import type { Context } from "../model/context.ts";
import type { Plan } from "../model/plan.ts";
import { makePlan, withoutServices } from "../model/planner.ts";
import type { Step } from "../model/step.ts";
import type { CommandModule } from "./commands.ts";
import { type FlagTable, flag } from "./flag.ts";
import { outputFlag, outputOf } from "./output-flag.ts";
import { strayWords, textFlag } from "./parse.ts";
import { findService } from "./service-name.ts";
import { stepText } from "./shell-text.ts";
import { assumedMachine, readSituation, type Situation } from "./situation.ts";
import { factFlags, situationFlags } from "./situation-flags.ts";
import { version } from "./version.ts";

const table: FlagTable = [
  ...situationFlags.filter(({ topic }) => topic.startsWith("What")),
  flag("What to look at", "service", "string", "Only what this Service adds to the rules of all others.", {
    placeholder: "namespace/name",
  }),
  ...factFlags,
  outputFlag,
  ...situationFlags.filter(({ topic }) => !topic.startsWith("What")),
];

export const command: CommandModule = {
  flags: table,
  usage: "[flags]",
  about:
    "Prints what the proxy would write to the kernel, step by step in the tools' own language, as a shell script. " +
    "Nothing is touched and no privilege is needed: it runs on a laptop with manifests, or against a cluster with a kubeconfig. " +
    "Flags win over the configuration file here, so that a change can be tried. Exit codes: 0 printed, 1 it could not be worked out.",
  run: async (parsed, output) => {
    const faults = strayWords(parsed.words);
    if (faults.length > 0) throw new ConfigError(faults);
    const form = outputOf(parsed);
    const machine = (config: Parameters<typeof assumedMachine>[1]) => assumedMachine(parsed, config);
    const situation = await readSituation({ name: "render", table, parsed, output, machine });
    const key = textFlag(parsed, "service");
    const only = key === "" ? undefined : findService(key, situation.objects);
    const families = situation.contexts.map((context) => renderFamily(context, situation, only));
    output.out(form === "json" ? renderJson(situation, families) : renderText(situation, families));
    return 0;
  },
};

interface Rendered {
  readonly context: Context;
  readonly plan: Plan;
  readonly setup: readonly Step[];
  readonly steps: readonly Step[];
  /** Undefined: all Services. */
  readonly only: string | undefined;
}

// --- internal ---

/** From an empty kernel; with `only`, from a kernel that has all other Services. */
function renderFamily(context: Context, { snapshot }: Situation, only: string | undefined): Rendered {
  const backend = backendOf(context.mode);
  const plan = makePlan(snapshot, context);
  const desired = backend.desired(plan, context, undefined);
  if (only !== undefined) {
    const without = backend.desired(withoutServices(plan, new Set([only])), context, undefined);
    const { steps } = backend.diff({ kind: "state", state: without }, desired, context, 0);
    return { context, plan, setup: [], steps, only };
  }
  const reading = backend.observe(context);
  const absent = { exitCode: 1, stdout: "", stderr: "Error: No such file or directory" };
  const observed = reading.parse(reading.steps.map(() => absent));
  const { steps } = backend.diff({ kind: "observed", observed }, desired, context, 0);
  return { context, plan, setup: backend.setup(context), steps, only };
}

function renderText({ contexts, objects, assumptions, warnings }: Situation, families: readonly Rendered[]): string {
  const mode = contexts[0]?.mode ?? "";
  const head = [
    `kube-proxy ${version} render: ${mode} mode, objects from ${objects.source}`,
    ...assumptions.map((line) => `assumed: ${line}`),
    ...warnings.map((line) => `note: ${line}`),
  ];
  // Both families share what is not of a family.
  const seen = new Set<string>();
  const fresh = (steps: readonly Step[]): readonly string[] =>
    steps.map(stepText).filter((text) => !seen.has(text) && seen.add(text));
  const parts = families.flatMap((family) => [
    `\n# ==== ${summary(family)}\n`,
    ...fresh(family.setup),
    ...family.steps.map((step, i) => `# step ${i + 1} of ${family.steps.length}\n${stepText(step)}`),
  ]);
  return `${head.map((line) => `# ${line.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")}\n`).join("")}set -e\n${parts.join("")}`;
}

function summary({ context, plan, steps, only }: Rendered): string {
  const { name } = context.family;
  if (only !== undefined) {
    if (!plan.services.has(only)) return `${name}: ${only} has no cluster IP of this family: nothing is written`;
    return `${name}: what ${only} adds${steps.length === 0 ? ": nothing" : ""}`;
  }
  return `${name}: ${plan.services.size} Services, ${plan.endpointCount} endpoints`;
}

function renderJson({ contexts, objects, assumptions, warnings }: Situation, families: readonly Rendered[]): string {
  const body = {
    version,
    mode: contexts[0]?.mode,
    node: objects.nodeName,
    source: objects.source,
    assumptions,
    warnings,
    families: families.map(({ context, plan, setup, steps, only }) => ({
      family: context.family.name,
      services: only === undefined ? plan.services.size : Number(plan.services.has(only)),
      endpoints: only === undefined ? plan.endpointCount : (plan.services.get(only)?.endpointCount ?? 0),
      conflicts: plan.conflicts,
      setup: setup.map(stepJson),
      steps: steps.map(stepJson),
    })),
  };
  return `${JSON.stringify(body, undefined, 2)}\n`;
}

function stepJson(step: Step): unknown {
  return step.kind === "exec" && step.input !== undefined ? { ...step, input: step.input.join("") } : step;
}
