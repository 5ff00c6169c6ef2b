/** Given flags to Settings: which field each sets, and the old ways of naming the two servers' ports. */
import { parsePort } from "../config/address.ts";
import { printDuration } from "../config/duration.ts";
import type { Settings, SettingValue } from "../config/settings.ts";
import { joinHostPort, parseIP } from "../model/ip.ts";
import type { Flag, FlagTable } from "./flag.ts";
import { extraTopic } from "./flags.ts";
import { numberFlag, type ParsedFlags, textFlag } from "./parse.ts";

/** The fields that the given flags set. `only` limits it to flags that count beside a configuration file. */
export function settingsFromFlags(table: FlagTable, parsed: ParsedFlags, only: "all" | "over-file"): Settings {
  const values = new Map<string, SettingValue>();
  const places = new Map<string, string>();
  const nftables = textFlag(parsed, "proxy-mode") === "nftables";
  for (const flag of table) {
    const value = parsed.given.get(flag.name);
    if (flag.field === undefined || value === undefined || (only === "over-file" && !flag.overFile)) continue;
    const field = nftables && flag.alsoNftables ? flag.field.replace("iptables.", "nftables.") : flag.field;
    values.set(field, flag.name === "hostname-override" ? nodeName(value) : value);
    places.set(field, `--${flag.name}`);
  }
  return { source: "flags", values, places };
}

/** Names of given flags that a configuration file overrules, without dashes. */
export function overruledFlags(table: FlagTable, parsed: ParsedFlags): readonly string[] {
  const ports = ["healthz-port", "metrics-port"];
  const inFile = (flag: Flag) => (flag.field !== undefined && !flag.overFile) || ports.includes(flag.name);
  return table.filter((flag) => inFile(flag) && parsed.given.has(flag.name)).map(({ name }) => name);
}

/**
 * How flags alone name the servers: an address without a port gets that of --healthz-port or --metrics-port, port 0
 * means no server. Not done when the configuration is only written, as the file cannot say either.
 */
export function completeServers(settings: Settings, parsed: ParsedFlags): Settings {
  const values = new Map(settings.values);
  for (const [field, name, usual, usualPort] of [
    ["healthzBindAddress", "healthz-port", "0.0.0.0", 10256],
    ["metricsBindAddress", "metrics-port", "127.0.0.1", 10249],
  ] as const) {
    const port = numberFlag(parsed, name, usualPort);
    const given = values.get(field) ?? (parsed.given.has(name) ? usual : undefined);
    const ip = typeof given === "string" ? parseIP(given) : undefined;
    if (port === 0) values.set(field, "");
    else if (ip !== undefined && parsePort(String(port)) !== undefined) values.set(field, joinHostPort(ip, port));
  }
  return { ...settings, values };
}

/** Empty server addresses mean the default in a file: leave them out when only a file is made. */
export function dropEmptyServers(settings: Settings): Settings {
  const values = new Map(settings.values);
  for (const field of ["healthzBindAddress", "metricsBindAddress"]) if (values.get(field) === "") values.delete(field);
  return { ...settings, values };
}

/** Every flag with its value as text, sorted by name, for /flagz; our own flags only when given. */
export function flagValues(table: FlagTable, parsed: ParsedFlags): ReadonlyMap<string, string> {
  const shown = table.filter(({ name, topic }) => topic !== extraTopic || parsed.given.has(name));
  const rows = shown.map((flag) => [flag.name, printFlag(flag, parsed.given.get(flag.name))] as const);
  return new Map(rows.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function printFlag(flag: Flag, value: SettingValue | undefined): string {
  if (value === undefined)
    return flag.default || ({ duration: "0s", strings: "[]", quantity: "0", Level: "0" }[flag.type as string] ?? "");
  if (flag.type === "duration") return printDuration(Number(value));
  if (flag.type === "strings") return `[${Array.isArray(value) ? value.join(",") : ""}]`;
  if (flag.type === "mapStringBool")
    return Object.entries(value)
      .map(([name, on]) => `${name}=${on}`)
      .sort()
      .join(",");
  if (Array.isArray(value)) {
    return value
      .flatMap((rule) => (typeof rule === "object" ? [`${rule.filePattern}=${rule.verbosity}`] : []))
      .join(",");
  }
  return String(value);
}

function nodeName(value: SettingValue): string {
  return String(value).trim().toLowerCase();
}
