/** What a subcommand says when it cannot do what it was asked to: one printable line, and its exit code for it. */
import type { Log, LogFields } from "../model/log.ts";
import type { Output } from "./commands.ts";

/** The command cannot answer. `message` says what is wrong and what to do; it is printed as it is. */
export class Trouble extends Error {
  override readonly name = "Trouble";
  /** Instead of the command's usual code for trouble. */
  readonly code: number | undefined;

  constructor(message: string, code?: number, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** By name: the commands load only what they need, and so does this file. */
const told: ReadonlySet<string> = new Set([
  "Trouble",
  "ApiError",
  "CommandError",
  "Exit",
  "KubeconfigError",
  "ManifestError",
]);

/** The line for an error that is no bug of ours; undefined for one that is. */
export function troubleLine(error: unknown): string | undefined {
  return error instanceof Error && told.has(error.name) ? printable(error.message) : undefined;
}

/** Warnings of the parts that a command uses, on standard error; the rest is silent. */
export function commandLog(name: string, output: Output): Log {
  const say = (message: string, fields: LogFields = {}): void => {
    const all = Object.entries(fields).filter(([, value]) => value !== undefined);
    const more = all.map(([key, value]) => ` ${key}=${typeof value === "string" ? JSON.stringify(value) : value}`);
    output.err(`kube-proxy ${name}: ${printable(message + more.join(""))}\n`);
  };
  return { error: say, warn: say, info: () => {}, debug: () => {} };
}

/** What comes from an API object or a tool stays on its line and does not colour the terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ");
}
