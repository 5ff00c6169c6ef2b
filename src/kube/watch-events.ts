/** One line of a watch, decoded as far as the protocol goes; the object itself is left to its parser. */
import { asText, dig, field } from "../model/json.ts";

export type WatchEvent =
  | { readonly kind: "put" | "delete"; readonly key: string; readonly raw: unknown; readonly version: string }
  /** `initialEnd`: the objects that existed when a WatchList began are all delivered. */
  | { readonly kind: "bookmark"; readonly version: string; readonly initialEnd: boolean }
  | { readonly kind: "error"; readonly status: unknown };

/** Throws SyntaxError for a line that is not a watch event. */
export function decodeEvent(line: string): WatchEvent {
  const event: unknown = JSON.parse(line);
  const raw = field(event, "object");
  const version = asText(dig(raw, "metadata", "resourceVersion")) ?? "";
  switch (field(event, "type")) {
    case "ADDED":
    case "MODIFIED":
      return { kind: "put", key: objectKey(raw), raw, version };
    case "DELETED":
      return { kind: "delete", key: objectKey(raw), raw, version };
    case "BOOKMARK": {
      const end = field(dig(raw, "metadata", "annotations"), "k8s.io/initial-events-end");
      return { kind: "bookmark", version, initialEnd: end === "true" };
    }
    case "ERROR":
      return { kind: "error", status: raw };
    default:
      throw new SyntaxError("not a watch event");
  }
}

/** `namespace/name`, or `name` for cluster-wide kinds, of any object however malformed. */
export function objectKey(raw: unknown): string {
  const namespace = asText(dig(raw, "metadata", "namespace"));
  const name = asText(dig(raw, "metadata", "name")) ?? "";
  return namespace === undefined ? name : `${namespace}/${name}`;
}
