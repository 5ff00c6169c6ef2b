/** The subcommands of the program. Each lives in its own file and is loaded only when called, so that the proxy starts fast. */
import type { FlagTable } from "./flag.ts";
import type { ParsedFlags } from "./parse.ts";

/** Where a command writes; whole lines or text, nothing lost at exit. */
export interface Output {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Columns of the terminal, 80 when there is none. */
  readonly width: number;
}

/** What a command's file exports as `command`. */
export interface CommandModule {
  /** Its own flags; --help is added. */
  readonly flags: FlagTable;
  /** What follows the name in the usage line, e.g. `[flags] SERVICE`. */
  readonly usage: string;
  /** Words that may follow the name, for completion. */
  readonly words?: readonly string[];
  /** What it does, a few sentences, for its --help. */
  readonly about: string;
  /** Exit code when the command cannot answer: the user's mistake, no access, a broken file. Default 1. */
  readonly trouble?: number;
  /** Exit code. ConfigError and what `troubleLine` knows are printed by the caller and give `trouble`. */
  readonly run: (parsed: ParsedFlags, output: Output) => Promise<number>;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: CommandModule }>;
}

/** In the order of --help. Add `{ name: "render", summary: "…", load: () => import("./render.ts") }`. */
export const commands: readonly Command[] = [
  { name: "render", summary: "Print what would be written to the kernel.", load: () => import("./render.ts") },
  { name: "status", summary: "Ask the running proxy how it is.", load: () => import("./status.ts") },
  {
    name: "doctor",
    summary: "Look whether this host can run a mode, and what stands in its way.",
    load: () => import("./doctor.ts"),
  },
  { name: "diff", summary: "Compare the kernel with what it should hold.", load: () => import("./diff.ts") },
  {
    name: "explain",
    summary: "Say where a packet goes and why, or all about one Service.",
    load: () => import("./explain.ts"),
  },
  { name: "completion", summary: "Print a completion script for a shell.", load: () => import("./completion.ts") },
  { name: "man", summary: "Print the manual page.", load: () => import("./man.ts") },
];
