/** Values that were given, by field path, with the place each came from: what flags and files have in common. */
import type { VModuleRule } from "./config.ts";

export type SettingValue =
  | string
  | number
  | boolean
  | readonly string[]
  | Readonly<Record<string, boolean>>
  | readonly VModuleRule[];

export interface Settings {
  /** In a file, zero and empty text mean "the default"; a flag's zero is a zero. */
  readonly source: "file" | "flags";
  /** By field path (`iptables.syncPeriod`); null and absent fields are not in it. */
  readonly values: ReadonlyMap<string, SettingValue>;
  /** `config.yaml:3:5` or `--flag`, by field path, also of list items (`nodePortAddresses[0]`) and sections. */
  readonly places: ReadonlyMap<string, string>;
}

export const noSettings: Settings = { source: "flags", values: new Map(), places: new Map() };

/** Where a field was set; the nearest enclosing place when it was not; empty when nothing encloses it. */
export function placeOf(settings: Settings, path: string): string {
  for (let at = path; at !== ""; at = at.replace(/(\.[^.[]*|\[\d+\]|^[^.[]*)$/, "")) {
    const place = settings.places.get(at);
    if (place !== undefined) return place;
  }
  return "";
}

/** `over` on top of `base`, which keeps its source. */
export function overlay(base: Settings, over: Settings): Settings {
  return {
    source: base.source,
    values: new Map([...base.values, ...over.values]),
    places: new Map([...base.places, ...over.places]),
  };
}

export function textOf(settings: Settings, path: string, fallback = ""): string {
  const value = settings.values.get(path);
  return typeof value === "string" && (value !== "" || settings.source === "flags") ? value : fallback;
}

export function boolOf(settings: Settings, path: string, fallback = false): boolean {
  const value = settings.values.get(path);
  return typeof value === "boolean" ? value : fallback;
}

/** A number or a duration, as given. */
export function numberOf(settings: Settings, path: string, fallback = 0): number {
  const value = settings.values.get(path);
  return typeof value === "number" ? value : fallback;
}

/** As `numberOf`, but a zero in a file means the default. */
export function nonZeroOf(settings: Settings, path: string, fallback: number): number {
  const value = numberOf(settings, path, fallback);
  return value === 0 && settings.source === "file" ? fallback : value;
}

export function textsOf(settings: Settings, path: string): readonly string[] {
  const value = settings.values.get(path);
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
}

export function gatesOf(settings: Settings, path: string): Readonly<Record<string, boolean>> {
  const value = settings.values.get(path);
  if (typeof value !== "object" || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter(([, on]) => typeof on === "boolean"));
}

export function vmoduleOf(settings: Settings, path: string): readonly VModuleRule[] {
  const value = settings.values.get(path);
  if (!Array.isArray(value)) return [];
  return value.filter((rule): rule is VModuleRule => typeof rule === "object");
}
