/** Objects from a file or folder of manifests instead of an API server: watched, and a broken file keeps its last good content. */
import { type FSWatcher, readdirSync, readFileSync, statSync, watch } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseEndpointSlice } from "../model/endpoint-slice-parse.ts";
import { asText, dig, field } from "../model/json.ts";
import type { Log } from "../model/log.ts";
import { parseNode, parseServiceCIDR } from "../model/node-parse.ts";
import type { Parsed } from "../model/note.ts";
import { parseService } from "../model/service-parse.ts";
import type { ObjectSource } from "./informers.ts";
import { readManifest } from "./manifest-file.ts";
import { NoteLog } from "./note-log.ts";
import type { ObjectStore } from "./object-store.ts";
import { pause } from "./pause.ts";
import type { Sink } from "./sink.ts";
import { objectKey } from "./watch-events.ts";

export interface ManifestOptions {
  /** A file, or a folder whose `*.yaml`, `*.yml` and `*.json` files are read (not those of its subfolders). */
  readonly path: string;
  readonly store: ObjectStore;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Files are looked at again after so many milliseconds even without a word from the kernel; default 5,000. */
  readonly pollMs?: number;
}

/** The path given cannot be read: one printable line, exit 1. */
export class ManifestError extends Error {
  override readonly name = "ManifestError";
}

/**
 * Starts following the path. `ready` waits until every file has been readable once: starting from half of the objects
 * would remove rules that work. Throws ManifestError when there is no such path.
 */
export function startManifests(options: ManifestOptions): ObjectSource {
  const source = new ManifestSource(options);
  const done = source.run();
  return { ready: source.ready, contacts: () => ({ manifests: source.lastRead }), done };
}

// --- internal ---

interface KnownFile {
  /** Of its inode, size and times: the content is read only when this changes. */
  stamp: string;
  text: string;
  objects: readonly unknown[];
  /** Never readable so far. */
  broken: boolean;
}

class ManifestSource {
  readonly ready: Promise<void>;
  lastRead = 0;
  readonly #options: ManifestOptions;
  readonly #files = new Map<string, KnownFile>();
  readonly #notes: NoteLog;
  #setReady: () => void = () => {};
  #said = "";

  constructor(options: ManifestOptions) {
    this.#options = options;
    this.#notes = new NoteLog(options.log);
    this.ready = new Promise((resolve) => {
      this.#setReady = resolve;
    });
    this.#list();
  }

  async run(): Promise<void> {
    const { signal, pollMs } = this.#options;
    while (!signal.aborted) {
      const woken = new AbortController();
      const wake = (): void => woken.abort();
      signal.addEventListener("abort", wake, { once: true });
      const watcher = this.#watch(wake);
      this.#read();
      await pause(pollMs ?? 5_000, woken.signal);
      watcher?.close();
      signal.removeEventListener("abort", wake);
      // editors and ConfigMap updates come in several steps
      if (!signal.aborted) await pause(50, signal);
    }
  }

  #watch(wake: () => void): FSWatcher | undefined {
    const { path } = this.#options;
    try {
      const folder = statSync(path).isDirectory() ? path : dirname(path);
      const watcher = watch(folder, wake);
      watcher.on("error", () => {});
      return watcher;
    } catch {
      // polling goes on
      return undefined;
    }
  }

  /** Paths of the files, sorted. Throws ManifestError. */
  #list(): readonly string[] {
    const { path } = this.#options;
    try {
      if (!statSync(path).isDirectory()) return [path];
      return readdirSync(path)
        .filter((name) => /\.(ya?ml|json)$/.test(name) && !basename(name).startsWith("."))
        .sort()
        .map((name) => join(path, name));
    } catch (cause) {
      const code = (cause as { code?: string }).code ?? String(cause);
      const reason = code === "ENOENT" ? "no such file or folder" : code;
      throw new ManifestError(`cannot read manifests from ${path}: ${reason}`, { cause });
    }
  }

  #read(): void {
    let paths: readonly string[];
    try {
      paths = this.#list();
    } catch (error) {
      // the folder went away for a moment, or for good: what we know stays
      this.#say((error as Error).message);
      return;
    }
    let changed = this.lastRead === 0;
    for (const path of this.#files.keys()) if (!paths.includes(path)) changed = this.#files.delete(path) || changed;
    for (const path of paths) changed = this.#readFile(path) || changed;
    this.lastRead = Date.now();
    if (!changed) return;
    if ([...this.#files.values()].some((file) => file.broken)) return;
    this.#publish();
    this.#setReady();
  }

  /** True when the file's objects are others than before. */
  #readFile(path: string): boolean {
    const known = this.#files.get(path);
    let text: string;
    let stamp: string;
    try {
      stamp = stampOf(path);
      if (known?.stamp === stamp) return false;
      text = readFileSync(path, "utf8");
    } catch (error) {
      this.#say(`cannot read ${path}: ${(error as { code?: string }).code}; its last content is kept`);
      if (known === undefined) this.#files.set(path, { stamp: "", text: "", objects: [], broken: true });
      return false;
    }
    if (known !== undefined && known.text === text && known.stamp !== "") {
      known.stamp = stamp;
      return false;
    }
    const content = readManifest(text);
    if (content.kind === "broken") {
      const kept =
        known === undefined || known.broken ? "waiting for it to be corrected" : "its last good content is kept";
      this.#options.log.error("Broken manifest", {
        file: `${path}:${content.at}`,
        problem: content.message,
        action: kept,
      });
      this.#files.set(path, { stamp, text, objects: known?.objects ?? [], broken: known?.broken ?? true });
      return false;
    }
    this.#files.set(path, { stamp, text, objects: content.objects, broken: false });
    return true;
  }

  #publish(): void {
    const { store } = this.#options;
    const all = [...this.#files.values()].flatMap((file) => file.objects);
    this.#fill("Service", all, parseService, store.services);
    this.#fill("EndpointSlice", all, parseEndpointSlice, store.endpointSlices);
    this.#fill("Node", all, parseNode, store.nodes);
    this.#fill("ServiceCIDR", all, parseServiceCIDR, store.serviceCIDRs);
  }

  #fill<T>(kind: string, all: readonly unknown[], parse: (raw: unknown) => Parsed<T>, sink: Sink<T>): void {
    const found = new Map<string, T>();
    const seen = new Set<string>();
    for (const raw of all.filter((one) => field(one, "kind") === kind)) {
      const object = kind === "Service" || kind === "EndpointSlice" ? withNamespace(raw) : raw;
      const key = objectKey(object);
      if (seen.has(key))
        this.#options.log.warn("Two manifests of one object, the last one counts", { kind, object: key });
      seen.add(key);
      const { value, notes } = parse(object);
      this.#notes.report(`${kind} ${key}`, notes);
      if (value === undefined) found.delete(key);
      else found.set(key, value);
    }
    sink.replace(found);
  }

  #say(message: string): void {
    if (message !== this.#said) this.#options.log.warn("Manifests", { problem: message });
    this.#said = message;
  }
}

function stampOf(path: string): string {
  const { ino, size, mtimeMs, ctimeMs } = statSync(path);
  return [ino, size, mtimeMs, ctimeMs].join(" ");
}

/** `kubectl apply` puts objects without a namespace into `default`. */
function withNamespace(raw: unknown): unknown {
  const metadata = field(raw, "metadata");
  if (asText(dig(raw, "metadata", "namespace")) !== undefined || typeof metadata !== "object" || metadata === null)
    return raw;
  return { ...(raw as object), metadata: { ...metadata, namespace: "default" } };
}
