/** Our rules in chains that are not ours alone: which to insert, which to take out. */
import { asVerb } from "../../tools/iptables-restore.ts";
import { jumpOf } from "../../tools/iptables-save.ts";

export interface JumpChanges {
  readonly jumps: readonly string[];
  readonly jumpsAdded: number;
}

/** From one list of wanted jumps to another. */
export function jumpChanges(before: readonly string[], after: readonly string[]): JumpChanges {
  return changeLines(
    before.filter((line) => !after.includes(line)),
    after.filter((line) => !before.includes(line)),
  );
}

/**
 * From what chains were seen to hold. A rule that leads where one of ours does but reads otherwise (an older version's,
 * or another spelling of the tool) is replaced by ours in one transaction, so such rules never pile up; doubles go. A
 * missing one goes behind those of ours that it stands behind when all are new.
 */
export function jumpRepairs(wanted: readonly string[], seen: ReadonlyMap<string, readonly string[]>): JumpChanges {
  const jumps: string[] = [];
  let jumpsAdded = 0;
  for (const chain of new Set(wanted.map(chainOfLine))) {
    const lines = [...(seen.get(chain) ?? [])];
    const ours = wanted.filter((line) => chainOfLine(line) === chain);
    for (const line of ours.flatMap((o) => surplus(o, lines))) {
      jumps.push(asVerb("-D", line));
      // The tool takes out the first rule that reads so.
      lines.splice(lines.indexOf(line), 1);
    }
    let at = 0;
    for (const line of ours) {
      const found = lines.indexOf(line);
      if (found < 0) {
        jumps.push(`-I ${chain} ${at + 1}${line.slice(3 + chain.length)}`);
        lines.splice(at, 0, line);
        jumpsAdded++;
      }
      at = (found < 0 ? at : found) + 1;
    }
  }
  return { jumps, jumpsAdded };
}

/** The chain of a rule line that starts with a two-letter verb (`-A CHAIN …`). */
export function chainOfLine(line: string): string {
  return line.slice(3, line.indexOf(" ", 3));
}

// --- internal ---

function changeLines(removed: readonly string[], added: readonly string[]): JumpChanges {
  // Every one is put at the head of its chain, so the last goes in first.
  const jumps = [...removed.map((l) => asVerb("-D", l)), ...[...added].reverse().map((l) => asVerb("-I", l))];
  return { jumps, jumpsAdded: added.length };
}

/** Seen rules with the same purpose (target chain, or text when the target is none of our chains), all but one that reads as ours. */
function surplus(line: string, seen: readonly string[]): string[] {
  const target = jumpOf(line);
  const rivals = seen.filter((l) => l === line || (target?.startsWith("KUBE-") === true && jumpOf(l) === target));
  const good = rivals.indexOf(line);
  return rivals.filter((_, i) => i !== good);
}
