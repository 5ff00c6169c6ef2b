/** A tool or kernel setting that failed, as facts; the message is built from them and says what to do where we know. */
import type { StepResult } from "../model/step.ts";
import type { LockHolder } from "./lock-holder.ts";
import { debianPackage } from "./tool-path.ts";

export interface InputLine {
  /** From 1. */
  readonly number: number;
  readonly text: string;
}

export interface CommandFacts {
  readonly argv: readonly string[];
  /** What it was for; empty: nothing to say. */
  readonly about: string;
  readonly exitCode?: number | undefined;
  /** Name, e.g. `SIGSEGV`. */
  readonly signal?: string | undefined;
  readonly trouble?: "missing" | "timeout" | "output" | "start" | "sysctl" | undefined;
  readonly timeoutMs?: number | undefined;
  /** For `sysctl`: a complete sentence. */
  readonly detail?: string | undefined;
  readonly stderr: string;
  /** Lines of the input that the tool named, at most five. */
  readonly inputLines: readonly InputLine[];
  readonly lockHolders?: readonly LockHolder[] | undefined;
}

/** Thrown for every failed command. `step` and `results` say how far a list of steps got. */
export class CommandError extends Error implements CommandFacts {
  override readonly name = "CommandError";
  readonly argv: readonly string[];
  readonly about: string;
  readonly exitCode: number | undefined;
  readonly signal: string | undefined;
  readonly trouble: CommandFacts["trouble"];
  readonly stderr: string;
  readonly inputLines: readonly InputLine[];
  readonly lockHolders: readonly LockHolder[];

  constructor(
    facts: CommandFacts,
    /** Index of the failed step. */
    readonly step = 0,
    /** Results of the steps before it. */
    readonly results: readonly StepResult[] = [],
    cause?: unknown,
  ) {
    super(describe(facts), cause === undefined ? undefined : { cause });
    this.argv = facts.argv;
    this.about = facts.about;
    this.exitCode = facts.exitCode;
    this.signal = facts.signal;
    this.trouble = facts.trouble;
    this.stderr = facts.stderr;
    this.inputLines = facts.inputLines;
    this.lockHolders = facts.lockHolders ?? [];
  }
}

/** One line: tool, what for, how it ended, what it said, which input, what to do. */
export function describe(facts: CommandFacts): string {
  const tool = facts.argv[0]?.split("/").at(-1) ?? "";
  const about = facts.about === "" ? "" : ` (${printable(facts.about, 100)})`;
  const said = firstLines(facts.stderr);
  const lines = facts.inputLines.map((line) => `input line ${line.number}: ${printable(line.text, 200)}`);
  const parts = [`${tool}${about} ${ending(facts, tool)}`, said, ...lines, lockText(facts.lockHolders)];
  return parts.filter((part) => part !== "").join("; ");
}

function ending(facts: CommandFacts, tool: string): string {
  switch (facts.trouble) {
    case "missing": {
      const source = debianPackage(tool);
      return `is not installed${source === undefined ? "" : `: install the package "${source}"`}`;
    }
    case "timeout":
      return `did not end within ${(facts.timeoutMs ?? 0) / 1000} s and was killed`;
    case "output":
      return "printed too much and was killed";
    case "start":
      return `could not be started${facts.detail === undefined ? "" : `: ${facts.detail}`}`;
    case "sysctl":
      return facts.detail ?? "failed";
    case undefined:
      return facts.signal === undefined
        ? `failed with exit code ${facts.exitCode ?? "unknown"}`
        : `was killed by ${facts.signal}`;
  }
}

function lockText(holders: readonly LockHolder[] | undefined): string {
  if (holders === undefined || holders.length === 0) return "";
  const names = holders.map(
    (holder) => `process ${holder.pid}${holder.comm === "" ? "" : ` (${printable(holder.comm, 40)})`}`,
  );
  return `the xtables lock is held by ${names.join(", ")}`;
}

function firstLines(stderr: string): string {
  const lines = stderr
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const shown = lines.slice(0, 3).map((line) => printable(line, 300));
  if (lines.length > 3) shown.push(`(${lines.length - 3} more lines)`);
  return shown.join(" | ");
}

/** Tools echo what we gave them, and that came from the API: no control characters, bounded. */
function printable(text: string, limit: number): string {
  const clean = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
  return clean.length > limit ? `${clean.slice(0, limit)}…` : clean;
}
