/** From paths of manifests to files, and from their objects into the store; once, or again and again (manifests.ts). */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, normalize } from "node:path";
import { parseEndpointSlice } from "../model/endpoint-slice-parse.ts";
import { asText, dig, field } from "../model/json.ts";
import type { Log } from "../model/log.ts";
import { parseNode, parseServiceCIDR } from "../model/node-parse.ts";
import type { Parsed } from "../model/note.ts";
import { parseService } from "../model/service-parse.ts";
import { readManifest } from "./manifest-file.ts";
import { NoteLog } from "./note-log.ts";
import type { ObjectStore } from "./object-store.ts";
import type { Sink } from "./sink.ts";
import { objectKey } from "./watch-events.ts";

/** A path given, or what is in it, is of no use: one printable line, exit 1. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";
}

/** Paths of the files that a path stands for, sorted. Throws ManifestError. */
export function listFiles(path: string): readonly string[] {
  try {
    if (!statSync(path).isDirectory()) return [normalize(path)];
    return readdirSync(path)
      .filter((name) => /\.(ya?ml|json)$/.test(name) && !name.startsWith("."))
      .sort()
      .map((name) => join(path, name));
  } catch (cause) {
    throw new ManifestError(`cannot read manifests from ${path}: ${reasonOf(cause)}`, { cause });
  }
}

/**
 * Reads the paths once. Throws ManifestError for the first path or file that cannot be read or is broken, with its
 * line and column, and when there is no Service in all of them.
 */
export function readManifests(paths: readonly string[], store: ObjectStore, log: Log): void {
  const files = [...new Set(paths.flatMap(listFiles))];
  const objects = files.flatMap((file) => {
    const content = readManifest(readText(file));
    if (content.kind === "broken") throw new ManifestError(`${file}:${content.at}: ${content.message}`);
    return content.objects;
  });
  fillStore(objects, store, new NoteLog(log), log);
  if (store.services.rows.size === 0) throw new ManifestError(noServices(paths));
}

/** Makes the store hold these objects and nothing else. Of two manifests of one object the later one counts. */
export function fillStore(objects: readonly unknown[], store: ObjectStore, notes: NoteLog, log: Log): void {
  const fill = <T>(kind: string, parse: (raw: unknown) => Parsed<T>, sink: Sink<T>): void =>
    sink.replace(parseAll(kind, objects, parse, notes, log));
  fill("Service", parseService, store.services);
  fill("EndpointSlice", parseEndpointSlice, store.endpointSlices);
  fill("Node", parseNode, store.nodes);
  fill("ServiceCIDR", parseServiceCIDR, store.serviceCIDRs);
}

export function noServices(paths: readonly string[]): string {
  return `${paths.join(", ")}: no Service is in these manifests, so there are no rules to write; add the Services and their EndpointSlices (kubectl get services,endpointslices -A -o yaml prints them)`;
}

// --- internal ---

function parseAll<T>(
  kind: string,
  objects: readonly unknown[],
  parse: (raw: unknown) => Parsed<T>,
  notes: NoteLog,
  log: Log,
): Map<string, T> {
  const found = new Map<string, T>();
  const seen = new Set<string>();
  for (const raw of objects.filter((one) => field(one, "kind") === kind)) {
    const object = kind === "Service" || kind === "EndpointSlice" ? withNamespace(raw) : raw;
    const key = objectKey(object);
    if (seen.has(key)) log.warn("Two manifests of one object, the last one counts", { kind, object: key });
    seen.add(key);
    const { value, notes: remarks } = parse(object);
    notes.report(`${kind} ${key}`, remarks);
    if (value === undefined) found.delete(key);
    else found.set(key, value);
  }
  return found;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new ManifestError(`cannot read manifests from ${file}: ${reasonOf(cause)}`, { cause });
  }
}

function reasonOf(cause: unknown): string {
  const code = (cause as { code?: string }).code ?? String(cause);
  return code === "ENOENT" ? "no such file or folder" : code === "EACCES" ? "this user may not read it" : code;
}

/** `kubectl apply` puts objects without a namespace into `default`. */
function withNamespace(raw: unknown): unknown {
  const metadata = field(raw, "metadata");
  if (asText(dig(raw, "metadata", "namespace")) !== undefined || typeof metadata !== "object" || metadata === null)
    return raw;
  return { ...(raw as object), metadata: { ...metadata, namespace: "default" } };
}
