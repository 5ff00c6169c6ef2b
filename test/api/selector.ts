/** Label and field selectors of LIST and WATCH, as a predicate over raw objects. */
import type { ApiObject } from "./object-store.ts";

export type Predicate = (object: ApiObject) => boolean;

/** One requirement of a label selector: `key`, `!key`, `key=v`, `key!=v`, `key in (a,b)`, `key notin (a,b)`. */
function labelRequirement(text: string): Predicate {
  const set = /^(\S+)\s+(in|notin)\s+\((.*)\)$/.exec(text);
  if (set !== null) {
    const [, key = "", operator, list = ""] = set;
    const values = new Set(list.split(",").map((value) => value.trim()));
    return (object) => values.has(String(labels(object)[key] ?? "")) === (operator === "in");
  }
  const pair = /^([^=!]+)(==|=|!=)(.*)$/.exec(text);
  if (pair !== null) {
    const [, key = "", operator, value] = pair;
    return (object) => (labels(object)[key.trim()] === value?.trim()) === (operator !== "!=");
  }
  if (text.startsWith("!")) return (object) => !Object.hasOwn(labels(object), text.slice(1).trim());
  return (object) => Object.hasOwn(labels(object), text);
}

/** Predicate of a whole label selector; empty text matches everything. */
export function labelSelector(text: string): Predicate {
  const requirements = text
    .split(/,(?![^(]*\))/)
    .filter((part) => part.trim() !== "")
    .map((part) => labelRequirement(part.trim()));
  return (object) => requirements.every((matches) => matches(object));
}

const fields = new Set(["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"]);

/** Predicate of a field selector. Throws an Error for a field that a real server would refuse. */
export function fieldSelector(text: string): Predicate {
  const requirements = text
    .split(",")
    .filter((part) => part !== "")
    .map((part): Predicate => {
      const pair = /^([^=!]+)(==|=|!=)(.*)$/.exec(part);
      const path = pair?.[1] ?? "";
      if (!fields.has(path)) throw new Error(`field label not supported: ${path}`);
      const equal = pair?.[2] !== "!=";
      return (object) => (fieldOf(object, path) === (pair?.[3] ?? "")) === equal;
    });
  return (object) => requirements.every((matches) => matches(object));
}

// --- internal ---

function labels(object: ApiObject): Readonly<Record<string, unknown>> {
  const found = object.metadata?.["labels"];
  return typeof found === "object" && found !== null ? (found as Record<string, unknown>) : {};
}

function fieldOf(object: ApiObject, path: string): string {
  let value: unknown = object;
  for (const part of path.split(".")) {
    value = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[part] : undefined;
  }
  return typeof value === "string" ? value : "";
}
