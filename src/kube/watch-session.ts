/** One watch from opening to end: reads events, and makes sure that silence means "no change" and not "no connection". */
import type { ApiError } from "./api-error.ts";
import { type ApiResource, collectionPath } from "./api-resource.ts";
import { linked, pause } from "./pause.ts";
import type { OpenStream, Transport } from "./transport.ts";
import { decodeEvent, type WatchEvent } from "./watch-events.ts";
import { LineSplitter } from "./watch-lines.ts";

/** All in milliseconds. */
export interface WatchTimings {
  /** A watch that says nothing for so long is probed. */
  readonly quiet: number;
  /** Deadline of the probe. Together with `quiet`: a dead peer is noticed within 75 s. */
  readonly probe: number;
  /** After a probe saw a change, so much time for the watch to deliver it. */
  readonly grace: number;
  /** Silence before the end of a WatchList's initial events that means: this server does not know WatchList. */
  readonly initialQuiet: number;
  /** Shortest server-side lifetime of a watch; the longest is twice that. */
  readonly lifetime: number;
}

export const watchTimings: WatchTimings = {
  quiet: 60_000,
  probe: 10_000,
  grace: 2_000,
  initialQuiet: 15_000,
  lifetime: 300_000,
};

/** What a watch goes on from: a version, or everything that exists. */
export type WatchStart = { readonly version: string } | { readonly initialEvents: true };

/** The server sent no end of the initial events. */
export class NoInitialEnd extends Error {
  override readonly name = "NoInitialEnd";
}

/**
 * Yields the events of each chunk; returns when the server ends the watch in an orderly way, or when our certificates changed.
 * Throws ApiError for everything else, NoInitialEnd when WatchList is not understood.
 */
export class WatchSession {
  readonly #transport: Transport;
  readonly #resource: ApiResource;
  readonly #timings: WatchTimings;
  #version: string;
  #initial: boolean;

  constructor(transport: Transport, resource: ApiResource, start: WatchStart, timings: WatchTimings) {
    this.#transport = transport;
    this.#resource = resource;
    this.#timings = timings;
    this.#initial = "initialEvents" in start;
    this.#version = "version" in start ? start.version : "";
  }

  async *events(signal: AbortSignal): AsyncGenerator<readonly WatchEvent[], void, void> {
    const lines = new LineSplitter();
    const stream = await this.#open(signal);
    let checked = performance.now();
    try {
      for (;;) {
        const chunk = await this.#read(stream, signal);
        if (chunk === "replace") return;
        this.#transport.heard();
        if (chunk.done) break;
        const events = this.#decode(lines, chunk.value);
        this.#follow(events);
        if (events.length > 0) yield events;
        // a busy watch is never quiet, but must not live on with certificates that were replaced either
        if (this.#initial || performance.now() - checked < this.#timings.quiet) continue;
        checked = performance.now();
        if ((await this.#transport.tlsVersion()) !== stream.tlsVersion) return;
      }
      if (lines.pending > 0) throw this.#broken("the stream ended in the middle of a line");
    } finally {
      await stream.close();
    }
  }

  // --- internal ---

  #open(signal: AbortSignal): Promise<OpenStream> {
    const { lifetime } = this.#timings;
    const parameters: Record<string, string> = {
      watch: "1",
      allowWatchBookmarks: "true",
      // spread, so that all nodes do not come back at once
      timeoutSeconds: String(Math.ceil((lifetime * (1 + Math.random())) / 1000)),
    };
    if (this.#initial) {
      parameters["sendInitialEvents"] = "true";
      parameters["resourceVersionMatch"] = "NotOlderThan";
    } else parameters["resourceVersion"] = this.#version;
    const path = collectionPath(this.#resource, parameters);
    return this.#transport.stream({ verb: "watch", resource: this.#resource.name, path, signal });
  }

  /** The next chunk, however long it takes, as long as the server proves to be there. */
  async #read(stream: OpenStream, signal: AbortSignal) {
    let arrived = false;
    const read = stream.reader.read().then(
      (chunk) => {
        arrived = true;
        return chunk;
      },
      (cause: unknown) => {
        throw this.#transport.streamError(this.#request, cause);
      },
    );
    for (;;) {
      const timer = linked(signal);
      const wait = this.#initial ? this.#timings.initialQuiet : this.#timings.quiet;
      const first = await Promise.race([read, pause(wait, timer.signal).then(() => "quiet" as const)]).finally(() => {
        timer.abort();
        timer.release();
      });
      if (first !== "quiet") return first;
      if (signal.aborted || arrived) return read;
      if (this.#initial) throw new NoInitialEnd("no end of the initial events");
      if ((await this.#transport.tlsVersion()) !== stream.tlsVersion) return "replace" as const;
      const missed = await Promise.race([read.then(() => false), this.#probe(signal)]);
      if (!missed || arrived) continue;
      await Promise.race([read, pause(this.#timings.grace, signal)]);
      if (!arrived && !signal.aborted) throw this.#broken("the watch is silent although there was a change");
    }
  }

  /**
   * A watch of one second from where we are. It proves that the server is there, and tells whether our own watch misses
   * something: behind a load balancer a plain GET may be answered by another server than the one that went away.
   * Throws when the server does not answer or the version is too old; other refusals are signs of life.
   */
  async #probe(parent: AbortSignal): Promise<boolean> {
    const link = linked(parent, this.#timings.probe);
    const request = { ...this.#request, path: this.#probePath(), signal: link.signal, timeoutMs: this.#timings.probe };
    let missed = false;
    try {
      const stream = await this.#transport.stream(request);
      try {
        const lines = new LineSplitter();
        for (let chunk = await stream.reader.read(); !chunk.done && !missed; chunk = await stream.reader.read()) {
          missed = this.#decode(lines, chunk.value).some((event) => event.kind !== "bookmark");
        }
      } finally {
        await stream.close();
      }
    } catch (cause) {
      const error = this.#transport.streamError(this.#request, cause);
      if (error.unreachable || error.expired) throw error;
    } finally {
      link.release();
    }
    return missed;
  }

  #probePath(): string {
    const parameters = { watch: "1", resourceVersion: this.#version, timeoutSeconds: "1" };
    return collectionPath(this.#resource, parameters);
  }

  #decode(lines: LineSplitter, chunk: Uint8Array): readonly WatchEvent[] {
    try {
      return lines.push(chunk).map(decodeEvent);
    } catch (cause) {
      throw this.#broken(`a line is not a watch event (${(cause as Error).message})`);
    }
  }

  #follow(events: readonly WatchEvent[]): void {
    for (const event of events) {
      if (event.kind === "error") continue;
      if (event.version !== "") this.#version = event.version;
      if (event.kind === "bookmark" && event.initialEnd) this.#initial = false;
    }
  }

  #broken(detail: string): ApiError {
    return this.#transport.statusError(this.#request, { code: 200, reason: "BrokenWatch", message: detail });
  }

  get #request() {
    return { verb: "watch", resource: this.#resource.name } as const;
  }
}
