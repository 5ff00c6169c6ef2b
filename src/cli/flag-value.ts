/** The text after a flag to a value of its type, by Go's rules; or what it must be. */
import { parseIPPort } from "../config/address.ts";
import type { VModuleRule } from "../config/config.ts";
import { type Decoded, quantityPattern } from "../config/decode-value.ts";
import { parseDuration } from "../config/duration.ts";
import type { SettingValue } from "../config/settings.ts";
import { parseIP } from "../model/ip.ts";
import type { FlagType } from "./flag.ts";

const good = (value: SettingValue): Decoded<SettingValue> => ({ ok: true, value });
const bad = (message: string): Decoded<never> => ({ ok: false, message });

const bools: Readonly<Record<string, boolean>> = {
  ...Object.fromEntries(["1", "t", "T", "true", "TRUE", "True"].map((text) => [text, true])),
  ...Object.fromEntries(["0", "f", "F", "false", "FALSE", "False"].map((text) => [text, false])),
};

/** `before`: the value so far, which lists and maps add to when a flag is repeated. */
export function parseFlagValue(type: FlagType, text: string, before: SettingValue | undefined): Decoded<SettingValue> {
  switch (type) {
    case "bool":
      return or(parseBool(text), "must be true or false");
    case "version":
      return or(text === "raw" ? "raw" : parseBool(text), "must be true, false or raw");
    case "int32":
      return or(parseInt32(text), "must be a whole number of 32 bits");
    case "Level":
      return or(parseLevel(text), "must be a level, a whole number from 0");
    case "float32":
      return or(parseFloat32(text), "must be a number");
    case "duration":
      return or(parseDuration(text), durationWanted(text));
    case "ip":
      return text === "" || parseIP(text.trim()) !== undefined ? good(text.trim()) : bad("must be an IP address");
    case "ipport":
      return isIPPort(text) ? good(text) : bad("must be an IP address, or an IP address and a port such as [::]:10256");
    case "quantity":
      return quantityPattern.test(text) ? good(text) : bad("must be a quantity such as 0, 512Ki or 4Mi");
    case "strings":
      return or(
        parseList(text, before),
        'must be a comma-separated list, with items in double quotes where they hold "',
      );
    case "mapStringBool":
      return parseGates(text, before);
    case "vmodule":
      return parseVModule(text);
    default:
      return good(text);
  }
}

function or(value: SettingValue | undefined, message: string): Decoded<SettingValue> {
  return value === undefined ? bad(message) : good(value);
}

function parseBool(text: string): boolean | undefined {
  return Object.hasOwn(bools, text) ? bools[text] : undefined;
}

/** Decimal, 0x, 0o, 0b, a leading 0 for octal, and underscores, as Go reads a number in base 0. */
function parseInteger(text: string): number | undefined {
  const [, sign, digits = ""] = /^([+-]?)(0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|\d[\d_]*)$/.exec(text) ?? [];
  if (digits === "" || /__|_$/.test(digits)) return undefined;
  const plain = digits.replace(/_/g, "");
  const value = /^0\d+$/.test(plain)
    ? /^[0-7]+$/.test(plain)
      ? Number.parseInt(plain, 8)
      : Number.NaN
    : Number(plain);
  return Number.isNaN(value) ? undefined : sign === "-" ? 0 - value : value;
}

function parseInt32(text: string): number | undefined {
  const value = parseInteger(text);
  return value !== undefined && value >= -(2 ** 31) && value < 2 ** 31 ? value : undefined;
}

function parseLevel(text: string): number | undefined {
  const value = parseInt32(text);
  return value !== undefined && value >= 0 ? value : undefined;
}

function parseFloat32(text: string): number | undefined {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text)) return undefined;
  const value = Number(text);
  return Math.abs(value) <= 3.4028234663852886e38 ? value : undefined;
}

function durationWanted(text: string): string {
  const hint = /^\d+$/.test(text) ? `${text}s` : "500ms, 30s";
  return `must be a duration with a unit, such as ${hint} or 1h30m`;
}

/** Nothing, an address alone, or an address and a port. */
function isIPPort(text: string): boolean {
  return text === "" || parseIP(text) !== undefined || parseIPPort(text) !== undefined;
}

/** One line of CSV, added to what was given before. */
function parseList(text: string, before: SettingValue | undefined): readonly string[] | undefined {
  const known = Array.isArray(before) ? before.filter((item) => typeof item === "string") : [];
  if (text === "") return known;
  if (!/^("(""|[^"])*"|[^",]*)(,("(""|[^"])*"|[^",]*))*$/.test(text)) return undefined;
  const items = text.match(/("(""|[^"])*"|[^",]+|(?<=,)(?=,|$)|^(?=,))/g) ?? [];
  return [...known, ...items.map((item) => (item.startsWith('"') ? item.slice(1, -1).replace(/""/g, '"') : item))];
}

function parseGates(text: string, before: SettingValue | undefined): Decoded<SettingValue> {
  const known = typeof before === "object" && !Array.isArray(before) ? Object.entries(before) : [];
  const gates = new Map<string, boolean>(known.map(([name, on]) => [name, on === true]));
  for (const pair of text.split(",").map((part) => part.trim())) {
    if (pair === "") continue;
    const [name = "", value] = pair.split(/=(.*)/s).map((part) => part.trim());
    const on = parseBool(value ?? "");
    if (name === "" || on === undefined) return bad(`must be name=true or name=false, not ${JSON.stringify(pair)}`);
    gates.set(name, on);
  }
  return good(Object.fromEntries(gates));
}

function parseVModule(text: string): Decoded<SettingValue> {
  const rules: VModuleRule[] = [];
  for (const pair of text.split(",")) {
    if (pair === "") continue;
    const [filePattern = "", digits = "", more] = pair.split("=");
    const verbosity = parseLevel(digits);
    if (filePattern === "" || verbosity === undefined || more !== undefined) {
      return bad(`must be pattern=N,..., not ${JSON.stringify(pair)}`);
    }
    rules.push({ filePattern, verbosity });
  }
  return good(rules);
}
