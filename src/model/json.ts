/** Reading untrusted JSON: each function returns a value of its type or undefined, whatever it is given. */

export type Json = Readonly<Record<string, unknown>>;

/** Own properties only: `__proto__` and friends never shine through. */
export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name) ? (value as Json)[name] : undefined;
}

/** Follow a path of field names. */
export function dig(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(field, value);
}

/** A string, also an empty one. */
export function asText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** A list, or an empty one for anything else (the API leaves empty lists out or writes null). */
export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A whole number within both bounds; never a string of digits. */
export function asInteger(value: unknown, min: number, max: number): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max ? value : undefined;
}

/** `true` or `false`; never a word or a number. */
export function asBoolean(value: unknown): boolean | undefined {
  return typeof value === "boolean" ? value : undefined;
}

/** DNS-1123 subdomain, the shape of all names we handle; nothing else can be a name in a rule. */
export function asName(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= 253 && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(value)
    ? value
    : undefined;
}

/** Milliseconds since the epoch of an RFC 3339 time; undefined for anything else. */
export function asTime(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  const ms = Date.parse(value);
  return Number.isFinite(ms) ? ms : undefined;
}

/** A value as short, printable, quoted text for a remark. */
export function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > 80 ? `${text.slice(0, 77)}…` : text;
}
