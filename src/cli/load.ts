/** A command line to what is to be done: run with a configuration, clean up, write a file, print the version or help. */
import { readFileSync } from "node:fs";
import type { Config } from "../config/config.ts";
import { ConfigError, type Fault, fault, type Warning } from "../config/config-error.ts";
import { makeConfig } from "../config/defaults.ts";
import { printConfig } from "../config/print.ts";
import { remarks } from "../config/remarks.ts";
import { noSettings, overlay, type Settings, textOf } from "../config/settings.ts";
import { validateConfig } from "../config/validate.ts";
import { commands } from "./commands.ts";
import { completeServers, dropEmptyServers, flagValues, overruledFlags, settingsFromFlags } from "./flag-settings.ts";
import { flags } from "./flags.ts";
import { boolFlag, listFlag, type ParsedFlags, scanFlags, strayWords, textFlag } from "./parse.ts";

const commandNames = commands.map(({ name }) => name);

/** What is given by flags only. */
export interface RunOptions {
  /** Empty: none. */
  readonly configFile: string;
  /** What was read from it, for the watch on it; undefined: no file. */
  readonly configText: string | undefined;
  /** URL of the API server; empty: as the kubeconfig says. */
  readonly master: string;
  readonly initOnly: boolean;
  /** Files or folders with objects, instead of an API server; empty: none. */
  readonly manifests: readonly string[];
  /** Candidates in order. */
  readonly machineIdFiles: readonly string[];
  readonly bootIdFiles: readonly string[];
  /** False: nobody chose a mode, the default is used (event KubeProxyDefaultMode). */
  readonly modeSet: boolean;
  /** All flags and their values, for /flagz. */
  readonly flagValues: ReadonlyMap<string, string>;
}

export type Loaded =
  | { readonly kind: "help" }
  | { readonly kind: "version"; readonly raw: boolean }
  | {
      readonly kind: "run" | "cleanup";
      readonly options: RunOptions;
      readonly config: Config;
      readonly warnings: readonly Warning[];
    }
  | {
      readonly kind: "write-config";
      readonly path: string;
      readonly text: string;
      readonly config: Config;
      readonly warnings: readonly Warning[];
    };

/** Text of a file; throws what node:fs throws. */
export type ReadText = (path: string) => string;

/**
 * Throws ConfigError with every fault of the command line, or else of the file, or else of the values.
 * To see what a changed file would mean: `load(argv, () => newText)`, then `sameMeaning`.
 */
export async function load(argv: readonly string[], readText: ReadText = readUtf8): Promise<Loaded> {
  const { faults, ...parsed } = scanFlags(flags, argv);
  if (boolFlag(parsed, "help")) return { kind: "help" };
  refuseAny([...faults, ...strayWords(parsed.words, commandNames), ...emptyHostname(parsed)]);
  const version = parsed.given.get("version");
  if (version === true || version === "raw") return { kind: "version", raw: version === "raw" };
  const path = textFlag(parsed, "write-config-to");
  const { settings, warnings, text } = await gather(parsed, path !== "", readText);
  const config = makeConfig(settings);
  refuseAny(validateConfig(config, settings));
  const all = [...warnings, ...deprecations(parsed), ...remarks(config)];
  if (path !== "") return { kind: "write-config", path, text: printConfig(config), config, warnings: all };
  const options = makeOptions(parsed, settings, text);
  return { kind: boolFlag(parsed, "cleanup") ? "cleanup" : "run", options, config, warnings: all };
}

/** What flags and file say together. */
async function gather(parsed: ParsedFlags, writing: boolean, readText: ReadText) {
  const name = textFlag(parsed, "config");
  if (name === "") {
    const all = settingsFromFlags(flags, parsed, "all");
    return { settings: writing ? dropEmptyServers(all) : completeServers(all, parsed), warnings: [], text: undefined };
  }
  const text = readConfigFile(name, readText);
  const { decodeConfig } = await import("../config/decode.ts");
  const file = decodeConfig(name, text);
  const settings = overlay(file.settings, settingsFromFlags(flags, parsed, "over-file"));
  return { settings, warnings: [...file.warnings, ...overruled(name, parsed)], text };
}

/** Text of the file; throws ConfigError. */
export function readConfigFile(name: string, readText: ReadText): string {
  try {
    return readText(name);
  } catch (error) {
    const { code = "", message = String(error) } = error as { code?: string; message?: string };
    const reasons: Readonly<Record<string, string>> = {
      ENOENT: "there is no such file",
      EACCES: "this user may not read it",
      EISDIR: "this is a folder; name the file in it",
    };
    throw new ConfigError([fault("", "--config", name, reasons[code] ?? `cannot be read: ${message}`)]);
  }
}

function overruled(name: string, parsed: ParsedFlags): readonly Warning[] {
  const names = overruledFlags(flags, parsed).map((flag) => `--${flag}`);
  if (names.length === 0) return [];
  return [
    { fields: [], message: `${name} wins over flags: ignoring ${names.join(", ")}; set them in the file instead` },
  ];
}

function deprecations(parsed: ParsedFlags): readonly Warning[] {
  return flags
    .filter(({ name, deprecated }) => deprecated !== undefined && parsed.given.has(name))
    .map(({ name, deprecated }) => ({ fields: [], message: `--${name} is deprecated: use ${deprecated}` }));
}

function makeOptions(parsed: ParsedFlags, settings: Settings, configText: string | undefined): RunOptions {
  const values = flagValues(flags, parsed);
  const files = (name: string) => (values.get(name) ?? "").split(",").filter((path) => path !== "");
  return {
    configFile: textFlag(parsed, "config"),
    configText,
    master: textFlag(parsed, "master"),
    initOnly: boolFlag(parsed, "init-only"),
    manifests: listFlag(parsed, "manifests"),
    machineIdFiles: files("machine-id-file"),
    bootIdFiles: files("boot-id-file"),
    modeSet: textOf(settings, "mode") !== "",
    flagValues: values,
  };
}

function emptyHostname(parsed: ParsedFlags): readonly Fault[] {
  const name = textFlag(parsed, "hostname-override");
  if (name === "" || name.trim() !== "") return [];
  return [fault("", "--hostname-override", name, "must not be blank")];
}

function refuseAny(faults: readonly Fault[]): void {
  if (faults.length > 0) throw new ConfigError(faults);
}

export function readUtf8(path: string): string {
  return readFileSync(path, "utf8");
}

/** The configuration of a process without flags or file. */
export function defaultConfig(): Config {
  return makeConfig(noSettings);
}
