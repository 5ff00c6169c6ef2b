/** Keeps a sink equal to one API resource, for ever: list, watch, resume, list again when history is lost. */
import type { Log } from "../model/log.ts";
import type { Parsed } from "../model/note.ts";
import { ApiError } from "./api-error.ts";
import type { ApiResource } from "./api-resource.ts";
import { KubeconfigError } from "./cluster-access.ts";
import { listAll } from "./listing.ts";
import { NoteLog } from "./note-log.ts";
import { BackOff, pause } from "./pause.ts";
import type { Sink } from "./sink.ts";
import type { Transport } from "./transport.ts";
import { objectKey, type WatchEvent } from "./watch-events.ts";
import { NoInitialEnd, WatchSession, type WatchTimings, watchTimings } from "./watch-session.ts";

export interface ReflectorOptions<T> {
  readonly transport: Transport;
  readonly resource: ApiResource;
  readonly parse: (raw: unknown) => Parsed<T>;
  readonly sink: Sink<T>;
  readonly log: Log;
  readonly timings?: WatchTimings;
  /** First and longest pause after errors, default 500 and 10,000 ms. */
  readonly backOff?: { readonly first: number; readonly most: number };
}

/** So many errors in a row without a single good event: start again from a list. */
const patience = 3;
/** An unserved optional API group is asked for again after this many milliseconds. */
const absentRetry = 300_000;

export class Reflector<T> {
  /** Resolves when the sink holds the first complete list. Never rejects. */
  readonly ready: Promise<void>;
  readonly #options: ReflectorOptions<T>;
  readonly #notes: NoteLog;
  readonly #backOff: BackOff;
  #setReady: () => void = () => {};
  /** Undefined: everything must be listed. */
  #version: string | undefined;
  #watchList = true;
  #failures = 0;
  #expirations = 0;
  #lastSaid = { message: "", at: Number.NEGATIVE_INFINITY };
  #lastContact = 0;

  constructor(options: ReflectorOptions<T>) {
    this.#options = options;
    this.#notes = new NoteLog(options.log);
    this.#backOff = new BackOff(options.backOff?.first ?? 500, options.backOff?.most ?? 10_000);
    this.ready = new Promise((resolve) => {
      this.#setReady = resolve;
    });
  }

  /** When the last event, bookmark or list came, in milliseconds since the epoch; 0: never. */
  get lastContact(): number {
    return this.#lastContact;
  }

  /** Runs until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const delay = await this.#round(signal).catch((error: unknown) => (signal.aborted ? 0 : this.#failed(error)));
      if (delay > 0) await pause(delay, signal);
    }
  }

  // --- internal ---

  /** One list or watch; gives the pause before the next. */
  async #round(signal: AbortSignal): Promise<number> {
    if (this.#version === undefined && !this.#watchList) await this.#list(signal);
    const started = performance.now();
    const events = await this.#watch(signal);
    // a server that ends every watch at once must not be asked in a tight loop
    return events === 0 && performance.now() - started < 1000 ? this.#backOff.next() : 0;
  }

  async #list(signal: AbortSignal): Promise<void> {
    const { transport, resource } = this.#options;
    const found = new Map<string, T>();
    const keys = new Set<string>();
    const each = (raw: unknown): void => this.#collect(objectKey(raw), raw, found, keys);
    const version = await listAll(transport, resource, each, signal);
    this.#replace(found, keys, version);
  }

  /** Number of events and bookmarks received. */
  async #watch(signal: AbortSignal): Promise<number> {
    const { transport, resource, timings } = this.#options;
    const start = this.#version === undefined ? ({ initialEvents: true } as const) : { version: this.#version };
    const session = new WatchSession(transport, resource, start, timings ?? watchTimings);
    const initial = { found: new Map<string, T>(), keys: new Set<string>() };
    let count = 0;
    for await (const events of session.events(signal)) {
      for (const event of events) {
        if (this.#version === undefined) this.#takeInitial(event, initial);
        else this.#take(event);
      }
      count += events.length;
    }
    return count;
  }

  #takeInitial(event: WatchEvent, initial: { readonly found: Map<string, T>; readonly keys: Set<string> }): void {
    if (event.kind === "error") throw this.#statusError(event.status);
    if (event.kind === "put") this.#collect(event.key, event.raw, initial.found, initial.keys);
    else if (event.kind === "delete") {
      initial.found.delete(event.key);
      initial.keys.delete(event.key);
    } else if (event.kind === "bookmark" && event.initialEnd) this.#replace(initial.found, initial.keys, event.version);
  }

  #take(event: WatchEvent): void {
    const { sink } = this.#options;
    if (event.kind === "error") throw this.#statusError(event.status);
    if (event.kind === "put") {
      const value = this.#parse(event.key, event.raw);
      if (value === undefined) sink.delete(event.key);
      else sink.set(event.key, value);
    } else if (event.kind === "delete") {
      this.#notes.forget(event.key);
      sink.delete(event.key);
    }
    if (event.version !== "") this.#version = event.version;
    this.#progress();
  }

  #collect(key: string, raw: unknown, found: Map<string, T>, keys: Set<string>): void {
    const value = this.#parse(key, raw);
    keys.add(key);
    if (value === undefined) found.delete(key);
    else found.set(key, value);
  }

  #replace(found: ReadonlyMap<string, T>, keys: ReadonlySet<string>, version: string): void {
    this.#options.sink.replace(found);
    this.#notes.retain(keys);
    this.#version = version;
    this.#progress();
    this.#setReady();
  }

  /** A bug in a parser must cost one object, and be heard of. */
  #parse(key: string, raw: unknown): T | undefined {
    try {
      const parsed = this.#options.parse(raw);
      this.#notes.report(key, parsed.notes);
      return parsed.value;
    } catch (error) {
      this.#options.log.error("Internal error while reading an object, left out", {
        object: key,
        error: String(error),
      });
      return undefined;
    }
  }

  #progress(): void {
    this.#lastContact = Date.now();
    if (this.#failures > 0) {
      this.#options.log.info("The API server answers again", { resource: this.#options.resource.name });
    }
    this.#failures = 0;
    this.#expirations = 0;
    this.#lastSaid = { message: "", at: Number.NEGATIVE_INFINITY };
    this.#backOff.reset();
  }

  /** Decides how to go on after an error; gives the pause in milliseconds. */
  #failed(error: unknown): number {
    const { log, resource, sink } = this.#options;
    const initial = this.#version === undefined;
    if (error instanceof NoInitialEnd || (initial && this.#watchList && refusesWatchList(error))) {
      log.debug(2, "No WatchList on this server, listing instead", { resource: resource.name, reason: String(error) });
      this.#watchList = false;
      return 0;
    }
    if (error instanceof ApiError && error.facts.status === 404 && resource.optional) {
      log.debug(2, "Not served by this cluster", { resource: resource.name });
      sink.replace(new Map());
      this.#setReady();
      return absentRetry;
    }
    if (error instanceof ApiError && error.expired && !initial) {
      log.debug(2, "The watch is too old, listing again", { resource: resource.name });
      this.#version = undefined;
      // the first time at once; a server that goes on saying so is given time
      return this.#expirations++ === 0 ? 0 : this.#backOff.next();
    }
    this.#failures++;
    // something in what we resume from may be at fault, unless nobody answers at all
    if (this.#failures % patience === 0 && !(error instanceof ApiError && error.unreachable)) this.#version = undefined;
    const delay = Math.max(this.#backOff.next(), error instanceof ApiError ? error.facts.retryAfterMs : 0);
    if (error instanceof ApiError || error instanceof KubeconfigError) this.#say(error.message, delay);
    else {
      // ours: self-heal from a fresh list, but never quietly
      this.#version = undefined;
      log.error("Internal error in a watch, starting again", { resource: resource.name, error: String(error) });
    }
    return delay;
  }

  /** The same complaint at most every 30 s. */
  #say(message: string, delay: number): void {
    const now = performance.now();
    if (message === this.#lastSaid.message && now - this.#lastSaid.at < 30_000) return;
    this.#lastSaid = { message, at: now };
    this.#options.log.warn("API request failed, trying again", { error: message, retryInMs: Math.round(delay) });
  }

  #statusError(status: unknown): ApiError {
    const { transport, resource } = this.#options;
    return transport.statusError({ verb: "watch", resource: resource.name }, status);
  }
}

/** 422 without the feature gate, 400 from servers that are stricter. */
function refusesWatchList(error: unknown): boolean {
  return error instanceof ApiError && (error.facts.status === 422 || error.facts.status === 400);
}
