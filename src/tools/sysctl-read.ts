/** How sysctls are read through a tool, so that pure code can ask for them: one grep for all. */
import type { ExecStep } from "../model/step.ts";

const root = "/proc/sys/";

/** Prints `path:value` for each file and passes over those that are not there. Names as below /proc/sys. */
export function readSysctls(names: readonly string[], about: string): ExecStep {
  return { kind: "exec", tool: "grep", args: ["-sH", "", ...names.map((n) => `${root}${n}`)], mayFail: true, about };
}

/** Values by name; what is absent was not there. */
export function parseSysctls(stdout: string): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  for (const line of stdout.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0 && line.startsWith(root)) values.set(line.slice(root.length, colon), line.slice(colon + 1).trim());
  }
  return values;
}
