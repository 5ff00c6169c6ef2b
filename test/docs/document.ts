/** README.md and CONTRIBUTING.md as data: their fenced blocks, commands, tables and words. */
import { readFileSync } from "node:fs";
import { Glob } from "bun";

export const root = `${import.meta.dir}/../..`;

export interface Block {
  /** First word after the fence: `sh`, `text`, … */
  readonly language: string;
  /** The rest of that line. */
  readonly note: string;
  readonly text: string;
}

export interface Document {
  readonly file: string;
  readonly text: string;
  readonly blocks: readonly Block[];
  /** Lines of all `sh` blocks, continuation lines joined, comments dropped; in order. */
  readonly commands: readonly string[];
  /** What stands between back ticks outside of blocks. */
  readonly code: readonly string[];
}

export function readDocument(file: string): Document {
  const text = readFileSync(`${root}/${file}`, "utf8");
  const blocks = [...text.matchAll(/^```(\S*)[ ]?(.*)\n([\s\S]*?)^```$/gm)].map(
    ([, language = "", note = "", body = ""]): Block => ({ language, note, text: body }),
  );
  const prose = text.replace(/^```[\s\S]*?^```$/gm, "");
  return {
    file,
    text,
    blocks,
    commands: blocks.filter((b) => b.language === "sh").flatMap((b) => commandsOf(b.text)),
    code: [...prose.matchAll(/`([^`\n]+)`/g)].map((m) => m[1] ?? ""),
  };
}

/** README.md first, then CONTRIBUTING.md, then the rest. */
export const documents: readonly Document[] = [
  "README.md",
  "CONTRIBUTING.md",
  ...[...new Glob("docs/*.md").scanSync(root)].sort(),
].map(readDocument);

/** The cells of every table row below a heading, up to the next heading of that depth or above. */
export function tableRows(text: string, heading: string): readonly (readonly string[])[] {
  const start = text.indexOf(`\n${heading}\n`);
  if (start < 0) throw new Error(`there is no heading ${JSON.stringify(heading)}`);
  const depth = heading.replace(/[^#].*$/, "").length;
  const rest = text.slice(start + heading.length + 2);
  const end = rest.search(new RegExp(`^#{1,${depth}} `, "m"));
  const lines = (end < 0 ? rest : rest.slice(0, end)).split("\n").filter((l) => l.startsWith("|"));
  return lines
    .filter((l) => !/^\|[-|\s]+\|$/.test(l))
    .map((l) =>
      l
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

// --- internal ---

function commandsOf(text: string): readonly string[] {
  return text
    .replace(/\\\n\s*/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.startsWith("#"));
}
