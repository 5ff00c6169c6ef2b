/** The configuration that a subcommand works with: the file's, with the flags of this command line on top. */
import type { Config } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import { decodeConfig } from "../config/decode.ts";
import { makeConfig } from "../config/defaults.ts";
import { noSettings, overlay, textOf } from "../config/settings.ts";
import { validateConfig } from "../config/validate.ts";
import type { FlagTable } from "./flag.ts";
import { completeServers, settingsFromFlags } from "./flag-settings.ts";
import { type ReadText, readConfigFile, readUtf8 } from "./load.ts";
import { type ParsedFlags, textFlag } from "./parse.ts";

export interface CommandConfig {
  readonly config: Config;
  /** One line each. */
  readonly warnings: readonly string[];
  /** `/etc/kube-proxy.yaml`; empty: none. */
  readonly file: string;
}

/** Throws ConfigError with every fault. Unlike the proxy itself, given flags win over the file: to see what a change would do. */
export function commandConfig(table: FlagTable, parsed: ParsedFlags, readText: ReadText = readUtf8): CommandConfig {
  const file = textFlag(parsed, "config");
  const decoded = file === "" ? undefined : decodeConfig(file, readConfigFile(file, readText));
  const base = decoded?.settings ?? noSettings;
  const given = new Map(parsed.given);
  const mode = textFlag(parsed, "mode") || textFlag(parsed, "proxy-mode") || textOf(base, "mode");
  if (mode !== "") given.set("proxy-mode", mode);
  const name = textFlag(parsed, "node-name");
  if (name !== "") given.set("hostname-override", name);
  const flags = settingsFromFlags(table, { ...parsed, given }, "all");
  const settings = decoded === undefined ? completeServers(flags, parsed) : overlay(base, flags);
  const config = makeConfig(settings);
  const faults = validateConfig(config, settings);
  if (faults.length > 0) throw new ConfigError(faults);
  return { config, file, warnings: (decoded?.warnings ?? []).map(({ message }) => message) };
}
