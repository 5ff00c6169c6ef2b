/** A complete LIST in pages, for servers without WatchList: page by page keeps the peak of memory low. */
import { asList, asText, dig, field } from "../model/json.ts";
import { ApiError } from "./api-error.ts";
import { type ApiResource, collectionPath } from "./api-resource.ts";
import type { Transport } from "./transport.ts";

/** Big enough that our own rate limit (5 a second after a burst of 10) does not slow a large cluster's first list. */
const pageSize = 2000;

/** Hands every object to `each`; gives the version to watch from. Throws ApiError. */
export async function listAll(
  transport: Transport,
  resource: ApiResource,
  each: (raw: unknown) => void,
  signal: AbortSignal,
): Promise<string> {
  let version = "";
  let next = "";
  do {
    const page = await listPage(transport, resource, { limit: String(pageSize), continue: next }, signal);
    if (version === "") version = asText(dig(page, "metadata", "resourceVersion")) ?? "";
    for (const raw of asList(field(page, "items"))) each(raw);
    next = asText(dig(page, "metadata", "continue")) ?? "";
  } while (next !== "");
  return version;
}

async function listPage(
  transport: Transport,
  resource: ApiResource,
  parameters: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<unknown> {
  const request = { verb: "list", resource: resource.name, signal, timeoutMs: 60_000 } as const;
  const page = await transport.request({ ...request, path: collectionPath(resource, parameters) });
  if (Array.isArray(field(page, "items")) || field(page, "items") === null) return page;
  const facts = { status: 200, reason: "BadAnswer", detail: "the answer is not a list", retryAfterMs: 0 };
  throw new ApiError({ verb: "list", resource: resource.name, server: transport.server, ...facts });
}
