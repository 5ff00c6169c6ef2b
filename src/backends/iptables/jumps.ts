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
 * From what a chain was seen to hold. A rule that leads where one of ours does but reads otherwise (an older version's,
 * or another spelling of the tool) is replaced by ours in one transaction, so such rules never pile up; doubles go.
 */
export function jumpRepairs(wanted: readonly string[], seen: ReadonlyMap<string, readonly string[]>): JumpChanges {
  const missing: string[] = [];
  const surplus: string[] = [];
  for (const line of wanted) {
    const rival = rivals(line, seen.get(chainOfLine(line)) ?? []);
    const good = rival.indexOf(line);
    if (good < 0) missing.push(line);
    surplus.push(...rival.filter((_, i) => i !== good));
  }
  return changeLines(surplus, missing);
}

export function chainOfLine(line: string): string {
  return line.slice(3, line.indexOf(" ", 3));
}

// --- internal ---

function changeLines(removed: readonly string[], added: readonly string[]): JumpChanges {
  // Every one is put at the head of its chain, so the last goes in first.
  const jumps = [...removed.map((l) => asVerb("-D", l)), ...[...added].reverse().map((l) => asVerb("-I", l))];
  return { jumps, jumpsAdded: added.length };
}

/** Seen rules with the same purpose: the same target chain, or the same text when the target is none of our chains. */
function rivals(line: string, seen: readonly string[]): string[] {
  const target = jumpOf(line);
  return seen.filter((other) => other === line || (target?.startsWith("KUBE-") === true && jumpOf(other) === target));
}
