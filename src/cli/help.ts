/** The text of --help: pure functions from a flag table and a width to lines. */
import type { Flag, FlagTable } from "./flag.ts";

export interface HelpPage {
  /** One line each, without the program's name: `[flags]`, `render [flags]`. */
  readonly usage: readonly string[];
  readonly about: string;
  readonly commands: readonly { readonly name: string; readonly summary: string }[];
  readonly flags: FlagTable;
}

/** Text no wider than `width` (at least 40), grouped by topic. */
export function helpText(page: HelpPage, width: number): string {
  const columns = Math.max(40, Math.min(width, 120));
  const topics = [...new Set(page.flags.map(({ topic }) => topic))];
  return [
    ...wrap(page.about, columns, ""),
    "",
    ...page.usage.map((line, index) => `${index === 0 ? "Usage:" : "      "} kube-proxy ${line}`),
    ...(page.commands.length > 0 ? ["", "Commands:", ...commandLines(page, columns)] : []),
    ...topics.flatMap((topic) => [
      "",
      ...wrap(`${topic}:`, columns, ""),
      ...page.flags.filter((flag) => flag.topic === topic).flatMap((flag) => flagLines(flag, columns)),
    ]),
    "",
  ].join("\n");
}

function commandLines({ commands }: HelpPage, columns: number): readonly string[] {
  const indent = Math.max(...commands.map(({ name }) => name.length)) + 4;
  return commands.flatMap(({ name, summary }) => {
    const [first = "", ...rest] = wrap(summary, columns, " ".repeat(indent));
    return [`  ${name.padEnd(indent - 2)}${first.trimStart()}`, ...rest];
  });
}

function flagLines(flag: Flag, columns: number): readonly string[] {
  const short = flag.short === undefined ? "    " : `-${flag.short}, `;
  const value = valueWord(flag);
  const usual = flag.default === "" || flag.default === "false" ? "" : ` Default: ${flag.default}.`;
  const old = flag.deprecated === undefined ? "" : ` Deprecated: use ${flag.deprecated}.`;
  return [`  ${short}--${flag.name}${value}`, ...wrap(flag.help + usual + old, columns, " ".repeat(10))];
}

/** What follows the flag, with its blank; empty for switches. */
export function valueWord(flag: Flag): string {
  if (flag.type === "bool") return "";
  if (flag.type === "version") return "[=raw]";
  const words: Readonly<Record<string, string>> = {
    strings: "list",
    vmodule: "pattern=N,...",
    mapStringBool: "name=bool,...",
    int32: "number",
    float32: "number",
    Level: "level",
    ProxyMode: "mode",
    LocalMode: "mode",
    ipport: "ip:port",
    quantity: "bytes",
  };
  return ` ${flag.placeholder ?? words[flag.type] ?? flag.type}`;
}

/** Lines of at most `columns`; words longer than a line stand alone. */
export function wrap(text: string, columns: number, indent: string): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && indent.length + line.length + 1 + word.length > columns) {
      lines.push(indent + line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, indent + line];
}
