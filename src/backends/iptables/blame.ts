/** Which Services an error of iptables-restore is about, by the input lines that it names. */
import type { Step } from "../../model/step.ts";
import { failedLines, ownerOfLine } from "../../tools/iptables-restore.ts";

/** None when the error names no line of a Service's: legacy reports a refused table at its COMMIT only. */
export function blame(step: Step, stderr: string): readonly string[] {
  if (step.kind !== "exec" || step.input === undefined) return [];
  const owners = new Set<string>();
  for (const line of failedLines(stderr)) {
    const owner = ownerOfLine(step.input, line);
    if (owner !== undefined) owners.add(owner);
  }
  return [...owners];
}
