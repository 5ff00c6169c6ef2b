/** One finding of `kube-proxy doctor`, and how findings are printed. */
import { printable } from "../trouble.ts";

export type Verdict = "ok" | "warn" | "fail";

export interface Check {
  /** `tools`, `kernel`, `privileges`, `sysctls`, `leftovers`, `cluster`. */
  readonly topic: string;
  readonly verdict: Verdict;
  /** What was found, one line. */
  readonly found: string;
  /** What follows from it; empty where it is as it should be. */
  readonly meaning: string;
  /** The command or setting that changes it; empty: nothing to do. */
  readonly fix: string;
}

export function ok(topic: string, found: string): Check {
  return { topic, verdict: "ok", found, meaning: "", fix: "" };
}

export function warn(topic: string, found: string, meaning: string, fix: string): Check {
  return { topic, verdict: "warn", found, meaning, fix };
}

/** The mode cannot run. */
export function fail(topic: string, found: string, meaning: string, fix: string): Check {
  return { topic, verdict: "fail", found, meaning, fix };
}

export function checksText(checks: readonly Check[]): string {
  const topics = [...new Set(checks.map(({ topic }) => topic))];
  return topics
    .flatMap((topic) => [
      `${topic}\n`,
      ...checks.filter((check) => check.topic === topic).map((check) => checkText(check)),
    ])
    .join("");
}

// --- internal ---

function checkText({ verdict, found, meaning, fix }: Check): string {
  const lines = [`  ${verdict.padEnd(5)} ${printable(found)}`];
  if (meaning !== "") lines.push(`        means: ${printable(meaning)}`);
  if (fix !== "") lines.push(`        fix:   ${printable(fix)}`);
  return lines.map((line) => `${line}\n`).join("");
}
