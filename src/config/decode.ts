/** A configuration file's text to Settings: strict about types, kind and version; unknown fields are one warning. */
import { isMap, isScalar, isSeq } from "yaml";
import { apiVersion, kind, type VModuleRule } from "./config.ts";
import { ConfigError, type Fault, fault, type Warning } from "./config-error.ts";
import { decodeScalar, decodeText } from "./decode-value.ts";
import { fields, nearestField, type Section, type Shape } from "./fields.ts";
import type { Settings, SettingValue } from "./settings.ts";
import { type Entry, entriesOf, readYaml, resolveAlias, type YamlFile } from "./yaml-document.ts";

/** What the walk collects. */
interface Findings {
  readonly file: YamlFile;
  readonly values: Map<string, SettingValue>;
  readonly places: Map<string, string>;
  readonly faults: Fault[];
  readonly unknown: { readonly path: string; readonly text: string }[];
}

/**
 * Reads KubeProxyConfiguration v1alpha1 (YAML or JSON). `name` is the file's name as the user gave it.
 * Throws ConfigError with every wrong type, or with the syntax, kind or version at fault.
 */
export function decodeConfig(name: string, text: string): { settings: Settings; warnings: readonly Warning[] } {
  const file = readYaml(name, text);
  const found: Findings = { file, values: new Map(), places: new Map([["", name]]), faults: [], unknown: [] };
  const root = file.document?.contents ?? undefined;
  checkIdentity(found, root);
  decodeSection(found, fields, root, "");
  if (found.faults.length > 0) throw new ConfigError(found.faults);
  found.values.delete("kind");
  found.values.delete("apiVersion");
  return {
    settings: { source: "file", values: found.values, places: found.places },
    warnings: [...unknownWarning(found), ...file.warnings],
  };
}

/** Kind and version come first: nothing else of a foreign file makes sense. */
function checkIdentity({ file }: Findings, root: unknown): void {
  if (root !== undefined && !isMap(root) && !(isScalar(root) && root.value === null)) {
    throw new ConfigError([fault(file.placeOf(root), "", undefined, `must be a mapping with kind: ${kind}`)]);
  }
  const entries = entriesOf(file, root);
  for (const [field, wanted] of [["kind", kind] as const, ["apiVersion", apiVersion] as const]) {
    const entry = entries.findLast(({ key }) => key === field);
    const value = isScalar(entry?.value) ? entry.value.value : undefined;
    if (value === wanted) continue;
    const place = entry === undefined ? file.name : file.placeOf(entry.value);
    const message = entry === undefined ? `missing; must be ${wanted}` : `must be ${wanted}`;
    throw new ConfigError([fault(place, field, value, message)]);
  }
}

function decodeSection(found: Findings, section: Section, node: unknown, path: string): void {
  if (isNull(node)) return;
  if (!isMap(node)) {
    refuse(found, node, path, `must be a section of fields: ${Object.keys(section).join(", ")}`);
    return;
  }
  for (const entry of entriesOf(found.file, node)) {
    const at = path === "" ? entry.key : `${path}.${entry.key}`;
    const shape = Object.hasOwn(section, entry.key) ? section[entry.key] : undefined;
    if (shape === undefined) found.unknown.push({ path: at, text: unknownText(entry, at, section) });
    else {
      if (entry.repeated)
        found.unknown.push({ path: at, text: `${at} (again at ${lineOf(entry.keyPlace)}; the last one counts)` });
      decodeField(found, shape, entry, at);
    }
  }
}

function decodeField(found: Findings, shape: Shape, entry: Entry, path: string): void {
  const { file, values, places } = found;
  places.set(path, isNull(entry.value) ? entry.keyPlace : file.placeOf(entry.value));
  // A repeated key replaces the whole of what it said before.
  for (const known of [...values.keys()]) if (known === path || known.startsWith(`${path}.`)) values.delete(known);
  if (typeof shape === "object") decodeSection(found, shape, entry.value, path);
  if (typeof shape === "object" || isNull(entry.value)) return;
  const value = decodeValue(found, shape, entry.value, path);
  if (value !== undefined) values.set(path, value);
}

function decodeValue(found: Findings, shape: Exclude<Shape, Section>, node: unknown, path: string) {
  if (shape === "texts") return decodeTexts(found, node, path);
  if (shape === "gates") return decodeGates(found, node, path);
  if (shape === "vmodule") return decodeVModule(found, node, path);
  if (!isScalar(node)) return refuse(found, node, path, "must be a single value");
  const decoded = decodeScalar(shape, node.value);
  return decoded.ok ? decoded.value : refuse(found, node, path, decoded.message);
}

function decodeTexts(found: Findings, node: unknown, path: string): readonly string[] | undefined {
  if (!isSeq(node)) return refuse(found, node, path, "must be a list of texts");
  return node.items.flatMap((raw, index) => {
    const item = resolveAlias(found.file, raw);
    const at = `${path}[${index}]`;
    found.places.set(at, found.file.placeOf(item));
    const decoded = decodeText(isScalar(item) ? item.value : undefined);
    if (decoded.ok) return [decoded.value];
    refuse(found, item, at, decoded.message);
    return [];
  });
}

function decodeGates(found: Findings, node: unknown, path: string): Readonly<Record<string, boolean>> | undefined {
  if (!isMap(node)) return refuse(found, node, path, "must be a mapping of gate names to true or false");
  const gates = new Map<string, boolean>();
  for (const entry of entriesOf(found.file, node)) {
    const at = `${path}.${entry.key}`;
    const value = isScalar(entry.value) ? entry.value.value : undefined;
    found.places.set(at, entry.keyPlace);
    if (entry.repeated)
      found.unknown.push({ path: at, text: `${at} (again at ${lineOf(entry.keyPlace)}; the last one counts)` });
    if (typeof value === "boolean") gates.set(entry.key, value);
    else refuse(found, entry.value, at, "must be true or false, without quotes");
  }
  return Object.fromEntries(gates);
}

function decodeVModule(found: Findings, node: unknown, path: string): readonly VModuleRule[] | undefined {
  if (!isSeq(node)) return refuse(found, node, path, "must be a list of {filePattern, verbosity}");
  return node.items.flatMap((raw, index) => {
    const item = resolveAlias(found.file, raw);
    const entries = new Map(entriesOf(found.file, item).map(({ key, value }) => [key, value]));
    const [filePattern, verbosity] = [entries.get("filePattern"), entries.get("verbosity")].map((value) =>
      isScalar(value) ? value.value : undefined,
    );
    if (
      typeof filePattern === "string" &&
      typeof verbosity === "number" &&
      Number.isInteger(verbosity) &&
      verbosity >= 0
    ) {
      return [{ filePattern, verbosity }];
    }
    refuse(found, item, `${path}[${index}]`, "must be {filePattern: text, verbosity: whole number}");
    return [];
  });
}

function refuse(found: Findings, node: unknown, path: string, message: string): undefined {
  const value = isScalar(node) ? node.value : undefined;
  found.faults.push(fault(found.file.placeOf(node), path, value, message));
}

function isNull(node: unknown): boolean {
  return node === null || node === undefined || (isScalar(node) && node.value === null);
}

function unknownText(entry: Entry, path: string, section: Section): string {
  const near = nearestField(section, entry.key.replace("\ufeff", ""));
  const mark = entry.key.includes("\ufeff") ? " (byte order mark)" : "";
  const hint = near === undefined ? "" : `, did you mean ${near}?`;
  return `${path.replace("\ufeff", "")}${mark} (unknown at ${lineOf(entry.keyPlace)}${hint})`;
}

/** `line:column` of a place. */
function lineOf(place: string): string {
  return place.split(":").slice(-2).join(":");
}

function unknownWarning({ file, unknown }: Findings): readonly Warning[] {
  if (unknown.length === 0) return [];
  const paths = unknown.map(({ path }) => (path.includes("\ufeff") ? "(byte order mark)" : path));
  const list = unknown.map(({ text }) => text.replace(/[\p{Cc}\p{Cf}]/gu, "?")).join(", ");
  return [{ fields: paths, message: `${file.name}: unknown or repeated fields are ignored: ${list}` }];
}
