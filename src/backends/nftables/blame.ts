/** Which Services a failed nft input is about, by the lines that the errors name. */
import type { Step } from "../../model/step.ts";
import { ownerOf } from "./names.ts";

/**
 * Keys (`namespace/name`) of the Services whose lines nft complains about, sorted; none when it cannot be told. Reads the
 * input again, so it is for failures only.
 */
export function blameServices(step: Step, stderr: string): readonly string[] {
  if (step.kind !== "exec" || step.input === undefined) return [];
  const numbers = new Set([...stderr.matchAll(/^\S+?:(\d+):\d+-\d+: Error/gm)].map((match) => Number(match[1])));
  if (numbers.size === 0) return [];
  const lines = step.input.join("").split("\n");
  const keys = new Set<string>();
  for (const number of numbers) {
    const key = ownerOfLine(lines, number - 1);
    if (key !== undefined) keys.add(key);
  }
  return [...keys].sort();
}

/** A line names its Service itself, or stands in the block of a chain or set that does. */
function ownerOfLine(lines: readonly string[], index: number): string | undefined {
  for (let i = index; i >= 0; i--) {
    const line = lines[i] ?? "";
    const block = /^\t(?:chain|set|map) (\S+) \{$/.exec(line);
    if (block !== null) return ownerOf(block[1] ?? "");
    if (i === index) {
      const own = ownerOfText(line);
      if (own !== undefined) return own;
    }
    // Elements and commands stand by themselves.
    if (/^\t\}$|^\S+ (?:element|chain|set|table) /.test(line)) return undefined;
  }
  return undefined;
}

function ownerOfText(line: string): string | undefined {
  for (const word of line.split(/[\s,{}]+/)) {
    const key = ownerOf(word.replace(/^@/, ""));
    if (key !== undefined) return key;
  }
  return /comment "([^/"]+\/[^/":]+)(?::[^"]*)?" : /.exec(line)?.[1];
}
