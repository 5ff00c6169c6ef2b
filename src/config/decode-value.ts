/** One value of a configuration file to its type, or why it cannot be: types as strict as the API's JSON. */
import type { Duration } from "./config.ts";
import { parseDuration } from "./duration.ts";
import type { FieldKind } from "./fields.ts";

/** A value of the field's type, or what is wrong with it. */
export type Decoded<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly message: string };

type ScalarKind = Exclude<FieldKind, "texts" | "gates" | "vmodule">;

export const quantityPattern = /^[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?$/;

const good = <T>(value: T): Decoded<T> => ({ ok: true, value });
const bad = (message: string): Decoded<never> => ({ ok: false, message });

export function decodeScalar(kind: ScalarKind, value: unknown): Decoded<string | number | boolean> {
  switch (kind) {
    case "text":
      return decodeText(value);
    case "bool":
      return typeof value === "boolean" ? good(value) : bad("must be true or false, without quotes");
    case "int":
      return decodeInt(value);
    case "float":
      return typeof value === "number" && Number.isFinite(value)
        ? good(value)
        : bad("must be a number, without quotes");
    case "duration":
      return decodeDuration(value);
    case "flush":
      return typeof value === "number" ? good(value / 1e6) : decodeDuration(value);
    case "quantity":
      if (typeof value === "number") return good(String(value));
      return typeof value === "string" && quantityPattern.test(value)
        ? good(value)
        : bad('must be a quantity such as "0", "512Ki" or "4Mi"');
  }
}

export function decodeText(value: unknown): Decoded<string> {
  if (typeof value === "string") return good(value);
  return bad("must be text; put it in quotes");
}

function decodeInt(value: unknown): Decoded<number> {
  if (typeof value !== "number" || !Number.isInteger(value)) return bad("must be a whole number, without quotes");
  return Math.abs(value) <= 2 ** 31 ? good(value) : bad("must fit into 32 bits");
}

function decodeDuration(value: unknown): Decoded<Duration> {
  if (typeof value === "number") return bad(`must be a duration with a unit, such as ${value}s or 1h30m`);
  const duration = typeof value === "string" ? parseDuration(value.trim() === value ? value : "") : undefined;
  return duration === undefined ? bad("must be a duration such as 500ms, 30s or 1h30m") : good(duration);
}
