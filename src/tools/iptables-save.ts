/** The output of `iptables-save` as chains with their rule lines, in one pass over the text. */

export interface SavedTable {
  /** By chain name: its `-A` lines as printed, newlines included; empty: no rules. */
  readonly chains: ReadonlyMap<string, string>;
  /** iptables-nft refuses to print the table because of a rule that another program made; it is not empty. */
  readonly unreadable?: true;
}

export const emptyTable: SavedTable = { chains: new Map() };

/**
 * Tables by name. Lines that are neither table, chain nor rule are passed over. iptables-save groups the rules by
 * chain, so a chain's rules are one slice of the text. Counters (`[1:60] -A …`) are not expected.
 */
export function parseSave(output: string): ReadonlyMap<string, SavedTable> {
  // xt_nfacct prints two blanks where one is read.
  const text = output.includes("--nfacct-name  ") ? output.replaceAll("--nfacct-name  ", "--nfacct-name ") : output;
  const tables = new Map<string, SavedTable>();
  let chains = new Map<string, string>();
  let chain = "";
  let from = -1;
  for (let at = 0; at < text.length; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? text.length : newline + 1;
    if (from >= 0 && !text.startsWith(`-A ${chain} `, at)) {
      chains.set(chain, (chains.get(chain) ?? "") + text.slice(from, at));
      from = -1;
    }
    const first = text.charCodeAt(at);
    if (first === 42 /* * */) {
      chains = new Map();
      tables.set(text.slice(at + 1, end).trim(), { chains });
    } else if (first === 58 /* : */) {
      chains.set(text.slice(at + 1, text.indexOf(" ", at)), "");
    } else if (first === 45 /* - */ && from < 0 && text.startsWith("-A ", at)) {
      const blank = text.indexOf(" ", at + 3);
      chain = text.slice(at + 3, blank < 0 || blank >= end ? end - 1 : blank);
      from = at;
    }
    at = end;
  }
  if (from >= 0) chains.set(chain, (chains.get(chain) ?? "") + text.slice(from));
  for (const [, table = ""] of text.matchAll(/^# Table `(\w+)' is incompatible/gm)) {
    tables.set(table, { chains: new Map(), unreadable: true });
  }
  return tables;
}

/** The lines of a text, each with its newline. */
export function linesOf(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  const last = lines.pop();
  const out = lines.map((line) => `${line}\n`);
  if (last !== undefined && last !== "") out.push(`${last}\n`);
  return out;
}

/** The chain that a rule line jumps to or goes to; undefined: none. */
export function jumpOf(line: string): string | undefined {
  return / -[jg] ([^ \n]+)/.exec(line)?.[1];
}
