/** Command lines by pflag's grammar, for any flag table: `--f v`, `--f=v`, `-v2`, `-v=2`, `-v 2`, `--`, `_` for `-`. */
import { ConfigError, type Fault, fault } from "../config/config-error.ts";
import type { SettingValue } from "../config/settings.ts";
import type { Flag, FlagTable } from "./flag.ts";
import { parseFlagValue } from "./flag-value.ts";
import { nearest, nearMiss } from "./nearest.ts";

export interface ParsedFlags {
  /** Flags that were given, by name; lists and maps hold what all repetitions gave, others the last. */
  readonly given: ReadonlyMap<string, SettingValue>;
  /** What is no flag, in order. */
  readonly words: readonly string[];
}

/** Throws ConfigError with every fault: unknown flags, bad and missing values. `words` are the caller's to judge. */
export function parseFlags(table: FlagTable, argv: readonly string[]): ParsedFlags {
  const { given, words, faults } = scanFlags(table, argv);
  if (faults.length > 0) throw new ConfigError(faults);
  return { given, words };
}

/** As parseFlags, but hands the faults back beside what could be read. */
export function scanFlags(
  table: FlagTable,
  argv: readonly string[],
): ParsedFlags & { readonly faults: readonly Fault[] } {
  const given = new Map<string, SettingValue>();
  const words: string[] = [];
  const faults: Fault[] = [];
  const rest = [...argv];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === "--") words.push(...rest.splice(0));
    else if (arg.startsWith("--")) readLong(table, arg, rest, given, faults);
    else if (arg.startsWith("-") && arg !== "-") readShort(table, arg, rest, given, faults);
    else words.push(arg);
  }
  return { given, words, faults };
}

/** One fault for each word where none is wanted; `commands` are the words that may come first. */
export function strayWords(words: readonly string[], commands: readonly string[] = []): readonly Fault[] {
  return words.map((word) => {
    const near = nearMiss(word, commands);
    const command = near === undefined ? "" : `did you mean the command ${near}? It comes first`;
    const hint = /^(true|false)$/i.test(word) ? `a switch takes its value with =, as in --flag=${word}` : command;
    return fault("", word, undefined, "is no flag and no command; see --help", hint);
  });
}

export function textFlag(parsed: ParsedFlags, name: string, fallback = ""): string {
  const value = parsed.given.get(name);
  return typeof value === "string" ? value : fallback;
}

export function boolFlag(parsed: ParsedFlags, name: string, fallback = false): boolean {
  const value = parsed.given.get(name);
  return typeof value === "boolean" ? value : fallback;
}

/** A number; milliseconds for durations. */
export function numberFlag(parsed: ParsedFlags, name: string, fallback: number): number {
  const value = parsed.given.get(name);
  return typeof value === "number" ? value : fallback;
}

export function listFlag(parsed: ParsedFlags, name: string): readonly string[] {
  const value = parsed.given.get(name);
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function readLong(
  table: FlagTable,
  arg: string,
  rest: string[],
  given: Map<string, SettingValue>,
  faults: Fault[],
): void {
  const equals = arg.indexOf("=");
  const written = equals < 0 ? arg : arg.slice(0, equals);
  const name = written.slice(2).replaceAll("_", "-");
  const flag = table.find((known) => known.name === name);
  if (flag === undefined) {
    faults.push(unknownFlag(table, written));
    return;
  }
  const value = equals >= 0 ? arg.slice(equals + 1) : isSwitch(flag) ? "true" : rest.shift();
  store(flag, written, value, given, faults);
}

/** `-v2`, `-v=2`, `-v 2`, `-hv2`: letters until one takes a value. */
function readShort(
  table: FlagTable,
  arg: string,
  rest: string[],
  given: Map<string, SettingValue>,
  faults: Fault[],
): void {
  for (let letters = arg.slice(1); letters !== ""; ) {
    const letter = letters.slice(0, 1);
    const flag = table.find((known) => known.short === letter);
    if (flag === undefined) {
      faults.push(unknownFlag(table, letters === arg.slice(1) ? arg : `-${letter}`));
      return;
    }
    const after = letters.slice(1);
    const hasValue = after.startsWith("=") || (after !== "" && !isSwitch(flag));
    if (!hasValue && isSwitch(flag)) store(flag, `-${letter}`, "true", given, faults);
    else store(flag, `-${letter}`, hasValue ? after.replace(/^=/, "") : rest.shift(), given, faults);
    letters = hasValue ? "" : isSwitch(flag) ? after : "";
  }
}

function store(
  flag: Flag,
  written: string,
  text: string | undefined,
  given: Map<string, SettingValue>,
  faults: Fault[],
): void {
  if (text === undefined) {
    faults.push(fault("", written, undefined, `needs a value: ${written}=${flag.placeholder ?? flag.type}`));
    return;
  }
  const parsed = parseFlagValue(flag.type, text, given.get(flag.name));
  if (parsed.ok) given.set(flag.name, parsed.value);
  else faults.push(fault("", written, text, parsed.message));
}

function isSwitch(flag: Flag): boolean {
  return flag.type === "bool" || flag.type === "version";
}

/** Long flags with one dash (`-config=x`) are told the right form; of a single letter nothing can be guessed. */
function unknownFlag(table: FlagTable, written: string): Fault {
  const name = written.replace(/^-+/, "").replace(/=.*/s, "");
  const known = table.map((flag) => flag.name);
  const near = name.length > 1 ? nearest(name, known) : undefined;
  return fault(
    "",
    written,
    undefined,
    "is no flag of this program",
    near === undefined ? "see --help" : `did you mean --${near}?`,
  );
}
