/** Input for `iptables-restore --noflush` in sections, and which input line an error of it names. */
import type { Family } from "../model/family.ts";
import type { ExecStep } from "../model/step.ts";
import { timeLimit } from "./time-limit.ts";

/** Seconds to wait for the xtables lock; exit code 4 afterwards. */
const lockWait = "5";

/** A chain to create, or to empty when it exists. Rules for it may follow at once. */
export function declare(chain: string): string {
  return `:${chain} - [0:0]\n`;
}

/** A line that the tool passes over; it tells `ownerOfLine` whose lines follow. */
export function ownerLine(owner: string): string {
  return `# ${JSON.stringify(owner)}\n`;
}

/** The same rule line as an insertion at the head of its chain, or as a deletion. */
export function asVerb(verb: "-I" | "-D", line: string): string {
  return verb + line.slice(2);
}

/** `*table … COMMIT`, in pieces. */
export function section(table: string, body: readonly string[]): string[] {
  return [`*${table}\n`, ...body, "COMMIT\n"];
}

/** `input`: whole sections, in pieces; lines that no section names stay as they are in the kernel (`--noflush`). */
export function restoreStep(family: Family, input: readonly string[], about: string): ExecStep {
  const tool = `${family.iptables}-restore`;
  return { kind: "exec", tool, args: ["-w", lockWait, "--noflush"], input, timeoutMs: timeLimit(input), about };
}

/** One table as `iptables-save` prints it. */
export function saveStep(family: Family, table: string): ExecStep {
  const tool = `${family.iptables}-save`;
  // iptables-save takes no lock and has no -w.
  return { kind: "exec", tool, args: ["-t", table], timeoutMs: 120_000, about: `read the ${table} table` };
}

const lineNumber = /(?:^|\s)(?:Error occurred at line:|line) (\d+)\b/g;

/** Input line numbers (from 1) that the error output of iptables-restore names. */
export function failedLines(stderr: string): number[] {
  return [...stderr.matchAll(lineNumber)].map((match) => Number(match[1]));
}

/**
 * The owner of an input line: what the nearest `# "owner"` line above it says, unless a `COMMIT`, a chain without one or
 * the start of a section comes first.
 */
export function ownerOfLine(input: readonly string[], line: number): string | undefined {
  const lines = input.join("").split("\n");
  const named = lines[line - 1];
  if (named === undefined || named === "" || named === "COMMIT" || named.startsWith("*")) return undefined;
  for (let i = line - 1; i >= 0; i--) {
    const text = lines[i] ?? "";
    if (text.startsWith('# "')) return parseOwner(text);
    if (text === "#" || text === "COMMIT" || text.startsWith("*")) return undefined;
  }
  return undefined;
}

/** Ends the lines of an owner: what follows belongs to nobody. */
export const nobody = "#\n";

function parseOwner(line: string): string | undefined {
  try {
    const owner: unknown = JSON.parse(line.slice(2));
    return typeof owner === "string" ? owner : undefined;
  } catch {
    return undefined;
  }
}
