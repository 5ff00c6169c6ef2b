/** Deletes classes of flows with few conntrack processes, each class still stale at that moment. */
import type { StaleClass } from "../conntrack/stale.ts";
import { type Family, type FamilyName, families } from "../model/family.ts";
import { batchArgs, deleteArgs } from "../tools/conntrack.ts";
import { commandFailure } from "./command-failure.ts";
import { type Command, type ExecOptions, execute, type Outcome } from "./exec.ts";

/** Each command reads the whole table (0.5 s with 200,000 entries): a batch ends within seconds, then the plan is asked again. */
const batchSize = 20;
const attempts = 3;

/** Number of entries removed. Throws CommandError when a batch fails three times. */
export async function deleteClasses(
  stale: readonly StaleClass[],
  familyName: FamilyName,
  stillStale: (one: StaleClass) => boolean,
  options: ExecOptions,
): Promise<number> {
  const family = families[familyName];
  let deleted = 0;
  for (let from = 0; from < stale.length; from += batchSize) {
    const batch = stale.slice(from, from + batchSize).filter(stillStale);
    if (batch.length > 0) deleted += await deleteBatch(batch, family, options);
  }
  return deleted;
}

async function deleteBatch(batch: readonly StaleClass[], family: Family, options: ExecOptions): Promise<number> {
  const words = batch.map(({ flow, whole }) => deleteArgs(family, flow, whole));
  const input = [`${words.map((line) => line.join(" ")).join("\n")}\n`];
  const command = { tool: "conntrack", args: batchArgs, input, timeoutMs: 120_000, about: "stale UDP flows" };
  let deleted = 0;
  for (let attempt = 1; ; attempt++) {
    const { outcome, lines } = await run(command, options);
    deleted += lines;
    if (succeeded(outcome)) return deleted;
    // Before 1.4.7 there is no -R: one process a class.
    if (isUnknownOption(outcome)) break;
    // An entry that expired between the tool's look and its deletion ends the batch ("such conntrack doesn't exist").
    if (attempt === attempts || outcome.trouble !== undefined) throw commandFailure(command, outcome);
  }
  for (const args of words) deleted += await deleteOne(args, options);
  return deleted;
}

async function deleteOne(args: readonly string[], options: ExecOptions): Promise<number> {
  const command = { tool: "conntrack", args, timeoutMs: 30_000, about: "stale UDP flows" };
  const { outcome, lines } = await run(command, options);
  // Exit code 1 with this text: nothing matched any more.
  if (succeeded(outcome) || /\b0 flow entries have been deleted/.test(outcome.stderr)) return lines;
  throw commandFailure(command, outcome);
}

/** The tool prints every entry it removed: counted, not kept. */
async function run(command: Command, options: ExecOptions): Promise<{ outcome: Outcome; lines: number }> {
  let lines = 0;
  const onStdout = (chunk: Uint8Array) => {
    for (const byte of chunk) if (byte === 10) lines++;
  };
  return { outcome: await execute(command, { ...options, onStdout }), lines };
}

function succeeded(outcome: Outcome): boolean {
  return outcome.trouble === undefined && outcome.exitCode === 0;
}

function isUnknownOption(outcome: Outcome): boolean {
  return /unknown option|unrecognized option|invalid option|Unknown arg/i.test(outcome.stderr);
}
