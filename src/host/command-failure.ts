/** From an outcome that is no success to the error that tells of it. */
import type { StepResult } from "../model/step.ts";
import { CommandError } from "./command-error.ts";
import type { Command, Outcome } from "./exec.ts";
import { lockHolders, xtablesLock } from "./lock-holder.ts";
import { namedLines } from "./named-lines.ts";
import { errorCode } from "./sysctl.ts";

export interface FailedCommand extends Command {
  readonly about: string;
}

/** `step`, `results`: see CommandError. `lockFile`: where the xtables lock is, to say who holds it. */
export function commandFailure(
  command: FailedCommand,
  outcome: Outcome,
  step = 0,
  results: readonly StepResult[] = [],
  lockFile: string = xtablesLock,
): CommandError {
  // Exit code 4 has other causes too (no memory, rules changed meanwhile): only the message tells.
  const waited = outcome.exitCode === 4 && outcome.stderr.includes("xtables lock");
  const facts = {
    argv: [outcome.path ?? command.tool, ...command.args],
    about: command.about,
    exitCode: outcome.exitCode,
    signal: outcome.signal,
    trouble: outcome.trouble,
    timeoutMs: command.timeoutMs ?? 30_000,
    detail: outcome.cause === undefined ? undefined : errorCode(outcome.cause),
    stderr: outcome.stderr,
    inputLines: namedLines(outcome.stderr, command.input),
    lockHolders: waited ? lockHolders(lockFile) : [],
  };
  return new CommandError(facts, step, results, outcome.cause);
}
