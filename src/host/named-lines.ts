/** Which lines of its input a tool's error message is about. */
import type { InputLine } from "./command-error.ts";

/**
 * One pattern per tool, first group the line number:
 * iptables-restore `line 7 failed`, `Error occurred at line: 7`, `line 7: RULE_APPEND failed` · nft `/dev/stdin:7:3-9: Error`
 * · ipset `Error in line 7:` · ip -batch `Command failed -:7`.
 */
const patterns = [/\bline:? (\d+)/g, /^(?:\/dev\/stdin|-|stdin):(\d+):\d+/gm, /Command failed \S+:(\d+)/g];

/** At most five lines, in the order the tool named them. */
export function namedLines(stderr: string, input: readonly string[] | undefined): readonly InputLine[] {
  if (input === undefined || input.length === 0) return [];
  const numbers = new Set<number>();
  for (const pattern of patterns) {
    for (const match of stderr.slice(0, 16_384).matchAll(pattern)) if (numbers.size < 5) numbers.add(Number(match[1]));
  }
  if (numbers.size === 0) return [];
  const texts = linesAt(input, numbers);
  return [...numbers].flatMap((number) => {
    const text = texts.get(number);
    return text === undefined ? [] : [{ number, text }];
  });
}

/** The wanted lines, without joining the pieces: a line may span several of them. */
function linesAt(pieces: readonly string[], wanted: ReadonlySet<number>): ReadonlyMap<number, string> {
  const found = new Map<number, string>();
  const last = Math.max(...wanted);
  let number = 1;
  let held = "";
  for (const piece of pieces) {
    let from = 0;
    while (number <= last) {
      const end = piece.indexOf("\n", from);
      if (wanted.has(number)) held += piece.slice(from, end === -1 ? undefined : end);
      if (end === -1) break;
      if (wanted.has(number)) found.set(number, held);
      held = "";
      number++;
      from = end + 1;
    }
    if (number > last) break;
  }
  if (held !== "" && wanted.has(number)) found.set(number, held);
  return found;
}
