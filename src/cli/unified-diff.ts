/** A unified diff of two lists of sections, as diff(1) prints it: a file a section, hunks with three lines of context. */
import type { Section } from "../tools/section.ts";

export interface SectionDifference {
  readonly name: string;
  /** Empty strings end no lines: each is one line, with ` `, `-` or `+` in front. */
  readonly lines: readonly string[];
  readonly added: number;
  readonly removed: number;
}

/** Only sections that differ, in the order of names. */
export function compareSections(old: readonly Section[], wanted: readonly Section[]): readonly SectionDifference[] {
  const before = new Map(old.map((section) => [section.name, section]));
  const after = new Map(wanted.map((section) => [section.name, section]));
  const names = [...new Set([...before.keys(), ...after.keys()])].sort();
  return names.flatMap((name) => {
    const [a, b] = [before.get(name), after.get(name)];
    const edits = editLines(a, b);
    const added = edits.filter((line) => line.startsWith("+")).length;
    const removed = edits.filter((line) => line.startsWith("-")).length;
    // A chain without rules is there or not.
    if (a === undefined && b?.lines.length === 0) return [{ name, lines: ["+(empty)"], added: 1, removed: 0 }];
    if (b === undefined && a?.lines.length === 0) return [{ name, lines: ["-(empty)"], added: 0, removed: 1 }];
    return added + removed === 0 ? [] : [{ name, lines: edits, added, removed }];
  });
}

/** The text of one section's difference. `from` and `to` name the two sides. */
export function unifiedText({ name, lines }: SectionDifference, from: string, to: string): string {
  return [`--- ${from}/${name}`, `+++ ${to}/${name}`, ...hunks(lines)].map((line) => `${line}\n`).join("");
}

// --- internal ---

const context = 3;

function editLines(a: Section | undefined, b: Section | undefined): readonly string[] {
  const [x, y] = [a?.lines ?? [], b?.lines ?? []];
  if (a?.ordered === false || b?.ordered === false) return mergeSorted(x, y);
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x.at(-1 - tail) === y.at(-1 - tail)) tail++;
  const same = (line: string): string => ` ${line}`;
  return [
    ...x.slice(0, head).map(same),
    ...middle(x.slice(head, x.length - tail), y.slice(head, y.length - tail)),
    ...x.slice(x.length - tail).map(same),
  ];
}

function mergeSorted(x: readonly string[], y: readonly string[]): readonly string[] {
  const out: string[] = [];
  for (let i = 0, j = 0; i < x.length || j < y.length; ) {
    const [a, b] = [x[i], y[j]];
    if (a === b) {
      out.push(` ${a}`);
      i++;
      j++;
    } else if (b === undefined || (a !== undefined && a < b)) {
      out.push(`-${a}`);
      i++;
    } else {
      out.push(`+${b}`);
      j++;
    }
  }
  return out;
}

/** Longest common subsequence; chains too long for that are given as a whole, old then new. */
function middle(x: readonly string[], y: readonly string[]): readonly string[] {
  if (x.length * y.length > 4_000_000) return [...x.map((line) => `-${line}`), ...y.map((line) => `+${line}`)];
  const width = y.length + 1;
  const table = new Uint32Array((x.length + 1) * width);
  const at = (i: number, j: number): number => table[i * width + j] ?? 0;
  for (let i = x.length - 1; i >= 0; i--)
    for (let j = y.length - 1; j >= 0; j--)
      table[i * width + j] = x[i] === y[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const out: string[] = [];
  for (let i = 0, j = 0; i < x.length || j < y.length; ) {
    if (i < x.length && j < y.length && x[i] === y[j]) {
      out.push(` ${x[i]}`);
      i++;
      j++;
    } else if (j >= y.length || (i < x.length && at(i + 1, j) >= at(i, j + 1))) out.push(`-${x[i++]}`);
    else out.push(`+${y[j++]}`);
  }
  return out;
}

function hunks(lines: readonly string[]): readonly string[] {
  const changed = lines.flatMap((line, i) => (line.startsWith(" ") ? [] : [i]));
  const out: string[] = [];
  let [oldLine, newLine, from] = [1, 1, 0];
  const advance = (to: number): void => {
    for (; from < to; from++) {
      if (!lines[from]?.startsWith("+")) oldLine++;
      if (!lines[from]?.startsWith("-")) newLine++;
    }
  };
  for (let i = 0; i < changed.length; ) {
    const start = Math.max(0, (changed[i] ?? 0) - context);
    let end = (changed[i] ?? 0) + context + 1;
    while (++i < changed.length && (changed[i] ?? 0) - context <= end) end = (changed[i] ?? 0) + context + 1;
    advance(start);
    const hunk = lines.slice(start, end);
    const count = (mark: string): number => hunk.filter((line) => !line.startsWith(mark)).length;
    out.push(`@@ -${range(oldLine, count("+"))} +${range(newLine, count("-"))} @@`, ...hunk);
  }
  return out;
}

/** As diff(1): an empty side is before its first line. */
function range(line: number, count: number): string {
  return `${count === 0 ? line - 1 : line},${count}`;
}
