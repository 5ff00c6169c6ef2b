/** How the fixture answers one API request: lists, watches, single objects, events, and the faults asked for. */
import type { Faults, RequestFault } from "./faults.ts";
import type { Target } from "./kinds.ts";
import { type ApiObject, keyOf, type ObjectStore } from "./object-store.ts";
import { fieldSelector, labelSelector, type Predicate } from "./selector.ts";
import { json, statusResponse } from "./status.ts";
import { goneEvent, WatchStream } from "./watch-stream.ts";

export interface Served {
  readonly store: ObjectStore;
  readonly faults: Faults;
  readonly watches: Set<WatchStream>;
  readonly bookmarkMs: number;
  /** False: a server without WatchList (422). `ignored`: a server so old that it does not know the parameter. */
  watchList: boolean | "ignored";
}

export type Verb = "list" | "watch" | "get" | "create" | "patch" | "delete";

export function verbOf(method: string, target: Target, query: URLSearchParams): Verb {
  if (method === "POST") return "create";
  if (method === "PATCH" || method === "PUT") return "patch";
  if (method === "DELETE") return "delete";
  if (target.name !== undefined) return "get";
  return ["1", "true"].includes(query.get("watch") ?? "") ? "watch" : "list";
}

/** Answers an authorised request. */
export async function answer(
  served: Served,
  verb: Verb,
  target: Target,
  query: URLSearchParams,
  body: string,
): Promise<Response> {
  const fault = served.faults.take(verb, target.resource.plural);
  if (fault !== undefined) return faulty(fault, verb);
  const { store } = served;
  const { resource } = target;
  if (verb === "create") return create(store, target, JSON.parse(body) as ApiObject);
  if (verb === "list" || verb === "watch") {
    let matches: Predicate;
    try {
      matches = selected(target, query);
    } catch (error) {
      return statusResponse(400, String(error));
    }
    return verb === "list" ? list(store, target, query, matches) : watch(served, target, query, matches);
  }
  const key = keyOf(target.namespace, target.name ?? "");
  const found = store.get(resource, key);
  if (found === undefined) return statusResponse(404, `${resource.plural} "${target.name}" not found`);
  if (verb === "get") return json(found.text);
  if (verb === "delete") return json(store.remove(resource, key) ? found.text : "{}");
  return json(store.apply(merge(found.object, JSON.parse(body)) as ApiObject).text);
}

// --- internal ---

function selected(target: Target, query: URLSearchParams): Predicate {
  const label = labelSelector(query.get("labelSelector") ?? "");
  const field = fieldSelector(query.get("fieldSelector") ?? "");
  const { namespace } = target;
  return (object) =>
    (namespace === undefined || object.metadata?.["namespace"] === namespace) && label(object) && field(object);
}

function list(store: ObjectStore, target: Target, query: URLSearchParams, matches: Predicate): Response {
  const limit = Number(query.get("limit") ?? 0);
  const token = query.get("continue");
  const from = token ? (JSON.parse(atob(token)) as { version: number; after: string }) : undefined;
  if (from !== undefined && from.version < store.oldest)
    return statusResponse(410, "The provided continue parameter is too old");
  let items = store.list(target.resource).filter((one) => matches(one.object));
  if (from !== undefined) items = items.filter((one) => one.key > from.after);
  const version = from?.version ?? store.version;
  const page = limit > 0 ? items.slice(0, limit) : items;
  const after = page.at(-1)?.key ?? "";
  const more = page.length < items.length ? { continue: btoa(JSON.stringify({ version, after })) } : {};
  const { kind, apiVersion } = target.resource;
  const metadata = JSON.stringify({ resourceVersion: String(version), ...more });
  const texts = page.map((one) => one.text).join(",");
  return json(`{"kind":"${kind}List","apiVersion":"${apiVersion}","metadata":${metadata},"items":[${texts}]}`);
}

function watch(served: Served, target: Target, query: URLSearchParams, matches: Predicate): Response {
  let initialEvents = query.get("sendInitialEvents") === "true";
  if (initialEvents && served.watchList === false) {
    const message =
      "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    return statusResponse(422, message);
  }
  if (served.watchList === "ignored") initialEvents = false;
  const version = query.get("resourceVersion") ?? "";
  const stream = new WatchStream(
    served.store,
    {
      resource: target.resource,
      matches,
      from: version === "" || version === "0" ? undefined : Number(version),
      initialEvents,
      bookmarks: query.get("allowWatchBookmarks") === "true",
      bookmarkMs: served.bookmarkMs,
      timeoutMs: 1000 * Number(query.get("timeoutSeconds") ?? 0),
    },
    served.watches,
  );
  return new Response(stream.stream, { headers: { "content-type": "application/json" } });
}

function create(store: ObjectStore, target: Target, sent: ApiObject): Response {
  const metadata: Record<string, unknown> = { namespace: target.namespace, ...sent.metadata };
  metadata["name"] ??= `${String(metadata["generateName"] ?? "")}${crypto.randomUUID().slice(0, 8)}`;
  if (target.namespace !== undefined && metadata["namespace"] !== target.namespace) {
    return statusResponse(400, "the namespace of the provided object does not match the namespace sent on the request");
  }
  if (store.get(target.resource, keyOf(target.namespace, String(metadata["name"]))) !== undefined) {
    return statusResponse(409, `${target.resource.plural} "${String(metadata["name"])}" already exists`);
  }
  const regarding = sent["regarding"] as { namespace?: string } | undefined;
  if (sent.kind === "Event" && regarding !== undefined && (regarding.namespace ?? "default") !== target.namespace) {
    return statusResponse(422, "Event is invalid: involvedObject.namespace: does not match event.namespace");
  }
  return json(
    store.apply({ ...sent, kind: target.resource.kind, apiVersion: target.resource.apiVersion, metadata }).text,
    201,
  );
}

function faulty(fault: RequestFault, verb: Verb): Response | Promise<Response> {
  const stream = (start: (controller: ReadableStreamDefaultController<Uint8Array>) => void) =>
    new Response(new ReadableStream<Uint8Array>({ start }), { headers: { "content-type": "application/json" } });
  switch (fault.kind) {
    case "status":
      return statusResponse(fault.code, "asked for by the test", fault);
    case "gone-event":
      return json(`${JSON.stringify(goneEvent)}\n`);
    case "stall":
      return new Promise<Response>(() => {});
    case "content-type":
      return new Response("<html>captive portal</html>", { headers: { "content-type": "text/html" } });
    case "garbage":
      return json("this is not JSON\n");
    case "silent":
      return stream((controller) => controller.enqueue(Buffer.from("\n")));
    case "half-line":
      return json(
        verb === "watch" ? '{"type":"ADDED","object":{"kind":"Serv' : '{"kind":"ServiceList","items":[{"meta',
      );
    case "reset":
      return stream((controller) => {
        controller.enqueue(Buffer.from(" "));
        setTimeout(() => controller.error(new Error("reset by the fixture")), 5);
      });
  }
}

/** JSON merge patch (RFC 7386). */
function merge(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> =
    typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete result[key];
    else result[key] = merge(result[key], value);
  }
  return result;
}
