/** Rules of iptables as values, printed in the very form `iptables-save` prints them, and read back; the only place that quotes. */

/**
 * One argument group of a rule, unquoted: `["-m", "comment", "--comment", "ns/name"]`, `["!", "-s", "10.0.0.0/8"]`.
 * The groups of a rule stand in the order of iptables-save: source, destination, interfaces, protocol, matches, target.
 */
export type Words = readonly string[];

export interface Rule {
  readonly chain: string;
  readonly words: readonly Words[];
}

/** xt_comment keeps 256 bytes, the closing NUL among them. */
const commentLimit = 255;
const saveBare = /^[A-Za-z0-9_-]+$/;
const plainWord = /^[A-Za-z0-9_.:/,[\]+!=<>@%^*-]+$/;
const escaped = /["\\']/g;

/** Text as a comment can hold it: printable ASCII, anything else as `?`, at most 255 bytes. */
export function commentText(text: string): string {
  return printable(text).slice(0, commentLimit);
}

/** `-m comment --comment …`, made safe by `commentText`. */
export function comment(text: string): Words {
  return ["-m", "comment", "--comment", commentText(text)];
}

/** `RULE` as `-A CHAIN …` with its newline: what iptables-restore reads and iptables-save prints. */
export function printRule(rule: Rule): string {
  let line = `-A ${quote(rule.chain)}`;
  for (const group of rule.words) {
    for (let i = 0; i < group.length; i++) {
      const word = group[i] ?? "";
      // iptables-save quotes a comment unless it is one bare word; all else only where the shell-like reader needs it.
      line += group[i - 1] === "--comment" ? ` ${saveBare.test(word) ? word : escapeWord(word)}` : ` ${quote(word)}`;
    }
  }
  return `${line}\n`;
}

/** The words of one line of iptables-save or iptables-restore, unquoted; undefined when a quote is left open. */
export function splitWords(line: string): string[] | undefined {
  const words: string[] = [];
  let word = "";
  let open = false;
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const c = line[i] ?? "";
    if (quoted && c === "\\") {
      word += line[++i] ?? "";
    } else if (c === '"') {
      quoted = !quoted;
      open = true;
    } else if (!quoted && (c === " " || c === "\t" || c === "\n")) {
      if (open || word !== "") words.push(word);
      word = "";
      open = false;
    } else {
      word += c;
    }
  }
  if (quoted) return undefined;
  if (open || word !== "") words.push(word);
  return words;
}

const shortOption = /^-[a-zA-Z]$/;

/** A rule from its `-A CHAIN …` line, its words grouped as the printer takes them; undefined for anything else. */
export function parseRule(line: string): Rule | undefined {
  const words = splitWords(line);
  const [verb, chain, ...rest] = words ?? [];
  if (verb !== "-A" || chain === undefined) return undefined;
  const groups: string[][] = [];
  let group: string[] = [];
  for (let i = 0; i < rest.length; i++) {
    const word = rest[i] ?? "";
    const negatedShort = word === "!" && shortOption.test(rest[i + 1] ?? "");
    const value = rest[i - 1]?.startsWith("--") === true;
    if (!value && group[group.length - 1] !== "!" && (negatedShort || shortOption.test(word)) && group.length > 0) {
      groups.push(group);
      group = [];
    }
    group.push(word);
  }
  if (group.length > 0) groups.push(group);
  return { chain, words: groups };
}

/** The probability as the kernel keeps it (31 bits) and prints it back, so that what is read equals what was written. */
export function probability(oneIn: number): string {
  const scale = 2 ** 31;
  return (Math.round(scale / oneIn) / scale).toFixed(11);
}

function quote(word: string): string {
  return plainWord.test(word) ? word : escapeWord(printable(word));
}

function escapeWord(word: string): string {
  return `"${word.replace(escaped, "\\$&")}"`;
}

function printable(text: string): string {
  return /^[ -~]*$/.test(text) ? text : text.replace(/[^ -~]/gu, "?");
}
