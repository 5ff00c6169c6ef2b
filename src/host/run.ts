/** Executes Steps in order, the one door from the pure parts to the host; stops at the first failure. */
import type { Log } from "../model/log.ts";
import type { ExecStep, Step, StepResult, SysctlStep } from "../model/step.ts";
import { CommandError } from "./command-error.ts";
import { commandFailure } from "./command-failure.ts";
import { type ExecOptions, execute } from "./exec.ts";
import { applySysctl, procSys } from "./sysctl.ts";

export interface RunOptions extends Omit<ExecOptions, "onStdout"> {
  /** Told of sysctls that were written (level 1) or could not be, but are not required. */
  readonly log?: Log | undefined;
  /** Default /proc/sys. */
  readonly sysctlRoot?: string | undefined;
  /** Default /run/xtables.lock. */
  readonly lockFile?: string | undefined;
  /** Checked before each step and ends pauses; a running tool is left to finish. Its reason is thrown. */
  readonly signal?: AbortSignal | undefined;
}

const nothing: StepResult = { exitCode: 0, stdout: "", stderr: "" };

/**
 * Runs the steps in order and returns their results in the same order.
 * Throws CommandError at the first failure, with `step` (its index) and `results` (of those before it).
 */
export async function runSteps(steps: readonly Step[], options: RunOptions = {}): Promise<StepResult[]> {
  const results: StepResult[] = [];
  for (const [index, step] of steps.entries()) {
    options.signal?.throwIfAborted();
    switch (step.kind) {
      case "exec":
        results.push(await runExec(step, index, results, options));
        break;
      case "sysctl":
        runSysctl(step, index, results, options);
        results.push(nothing);
        break;
      case "pause":
        await pause(step.ms, options.signal);
        results.push(nothing);
        break;
    }
  }
  return results;
}

async function runExec(step: ExecStep, index: number, before: StepResult[], options: RunOptions): Promise<StepResult> {
  const outcome = await execute(step, options);
  const { exitCode, stdout, stderr, trouble } = outcome;
  const silent = step.stderrFails !== true || stderr.trim() === "";
  if (trouble === undefined && exitCode === 0 && silent) return { exitCode, stdout, stderr };
  if (step.mayFail === true) {
    if (trouble === "missing") return { exitCode: -1, stdout, stderr };
    if (trouble === undefined && exitCode !== undefined) return { exitCode, stdout, stderr };
  }
  throw commandFailure(step, outcome, index, [...before], options.lockFile);
}

function runSysctl(step: SysctlStep, index: number, before: StepResult[], options: RunOptions): void {
  const outcome = applySysctl(step, options.sysctlRoot ?? procSys);
  if (outcome.kind === "written") {
    options.log?.debug(1, "Sysctl set", { name: step.name, from: outcome.from, to: step.value, about: step.about });
  }
  if (outcome.kind !== "failed") return;
  if (step.required) {
    const argv = ["sysctl", "-w", `${step.name.replaceAll("/", ".")}=${step.value}`];
    const facts = {
      argv,
      about: step.about,
      trouble: "sysctl",
      detail: outcome.detail,
      stderr: "",
      inputLines: [],
    } as const;
    throw new CommandError(facts, index, [...before], outcome.cause);
  }
  options.log?.warn("Sysctl not set, going on", { name: step.name, about: step.about, reason: outcome.detail });
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = () => {
    clearTimeout(timer);
    reject(signal?.reason);
  };
  const timer = setTimeout(() => {
    signal?.removeEventListener("abort", stop);
    resolve();
  }, ms);
  signal?.addEventListener("abort", stop, { once: true });
  return promise;
}
