/** Objects from files and folders of manifests instead of an API server: watched, and a broken file keeps its last good content. */
import { type FSWatcher, readFileSync, statSync, watch } from "node:fs";
import { dirname } from "node:path";
import type { Log } from "../model/log.ts";
import type { ObjectSource } from "./informers.ts";
import { readManifest } from "./manifest-file.ts";
import { fillStore, listFiles, noServices } from "./manifest-objects.ts";
import { NoteLog } from "./note-log.ts";
import type { ObjectStore } from "./object-store.ts";
import { pause } from "./pause.ts";

export interface ManifestOptions {
  /**
   * Files, and folders whose `*.yaml`, `*.yml` and `*.json` files are read (not those of their subfolders). Of two
   * manifests of one object the later one counts, in the order of the paths, then of the file names.
   */
  readonly paths: readonly string[];
  readonly store: ObjectStore;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Files are looked at again after so many milliseconds even without a word from the kernel; default 5,000. */
  readonly pollMs?: number;
}

/**
 * Starts following the paths. `ready` waits until every file has been readable once: starting from half of the objects
 * would remove rules that work. Throws ManifestError when one of the paths is not there.
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
  /** The files of each path when it could last be read. */
  readonly #listed = new Map<string, readonly string[]>();
  readonly #notes: NoteLog;
  #setReady: () => void = () => {};
  /** The last complaint about each path. */
  readonly #said = new Map<string, string>();

  constructor(options: ManifestOptions) {
    this.#options = options;
    this.#notes = new NoteLog(options.log);
    this.ready = new Promise((resolve) => {
      this.#setReady = resolve;
    });
    for (const path of options.paths) listFiles(path);
  }

  async run(): Promise<void> {
    const { signal, pollMs } = this.#options;
    while (!signal.aborted) {
      const woken = new AbortController();
      const wake = (): void => woken.abort();
      signal.addEventListener("abort", wake, { once: true });
      const watchers = this.#watch(wake);
      this.#read();
      await pause(pollMs ?? 5_000, woken.signal);
      for (const watcher of watchers) watcher.close();
      signal.removeEventListener("abort", wake);
      // editors and ConfigMap updates come in several steps
      if (!signal.aborted) await pause(50, signal);
    }
  }

  /** One watch on each folder. */
  #watch(wake: () => void): readonly FSWatcher[] {
    const folders = new Set(this.#options.paths.map(folderOf));
    return [...folders].flatMap((folder) => {
      try {
        const watcher = watch(folder, wake);
        watcher.on("error", () => {});
        return [watcher];
      } catch {
        // polling goes on
        return [];
      }
    });
  }

  #read(): void {
    const paths = this.#list();
    let changed = this.lastRead === 0;
    for (const path of this.#files.keys()) if (!paths.includes(path)) changed = this.#files.delete(path) || changed;
    for (const path of paths) changed = this.#readFile(path) || changed;
    this.lastRead = Date.now();
    if (!changed) return;
    if ([...this.#files.values()].some((file) => file.broken)) return;
    this.#publish(paths);
    this.#setReady();
  }

  /** Paths of the files, each once, in the order in which they count. */
  #list(): readonly string[] {
    for (const path of this.#options.paths) {
      try {
        this.#listed.set(path, listFiles(path));
        this.#said.delete(path);
      } catch (error) {
        // it went away for a moment, or for good: what we know stays
        this.#say(path, `${(error as Error).message}; its last good content is kept`);
      }
    }
    return [...new Set(this.#options.paths.flatMap((path) => this.#listed.get(path) ?? []))];
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
      this.#say(path, `cannot read ${path}: ${(error as { code?: string }).code}; its last content is kept`);
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

  #publish(paths: readonly string[]): void {
    const { store, log } = this.#options;
    fillStore(
      paths.flatMap((path) => this.#files.get(path)?.objects ?? []),
      store,
      this.#notes,
      log,
    );
    if (store.services.rows.size === 0) this.#say("", noServices(this.#options.paths));
    else this.#said.delete("");
  }

  #say(path: string, message: string): void {
    if (message !== this.#said.get(path)) this.#options.log.warn("Manifests", { problem: message });
    this.#said.set(path, message);
  }
}

function folderOf(path: string): string {
  try {
    return statSync(path).isDirectory() ? path : dirname(path);
  } catch {
    return dirname(path);
  }
}

function stampOf(path: string): string {
  const { ino, size, mtimeMs, ctimeMs } = statSync(path);
  return [ino, size, mtimeMs, ctimeMs].join(" ");
}
