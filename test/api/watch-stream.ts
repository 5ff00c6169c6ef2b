/** One open watch of the fixture: a stream of JSON lines fed from the object store. */
import type { LiveFault } from "./faults.ts";
import type { Resource } from "./kinds.ts";
import type { ApiObject, ObjectStore, Write } from "./object-store.ts";
import type { Predicate } from "./selector.ts";

export interface WatchOptions {
  readonly resource: Resource;
  readonly matches: Predicate;
  /** Resume after this version; undefined: from now. */
  readonly from: number | undefined;
  readonly initialEvents: boolean;
  readonly bookmarks: boolean;
  readonly bookmarkMs: number;
  /** 0: no limit. */
  readonly timeoutMs: number;
}

export class WatchStream {
  readonly resource: Resource;
  readonly stream: ReadableStream<Uint8Array>;
  readonly #options: WatchOptions;
  readonly #store: ObjectStore;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #unsubscribe: () => void = () => {};
  #timers: ReturnType<typeof setTimeout>[] = [];
  #silent = false;
  readonly #watches: Set<WatchStream>;

  /** Keeps itself in `watches` while it is open. */
  constructor(store: ObjectStore, options: WatchOptions, watches: Set<WatchStream>) {
    this.#store = store;
    this.#options = options;
    this.resource = options.resource;
    this.#watches = watches;
    watches.add(this);
    this.stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#controller = controller;
        // Bun.serve (1.4.5) holds the headers back until the first byte of the body; a real server sends them at once
        controller.enqueue(Buffer.from("\n"));
        this.#begin();
      },
      cancel: () => this.#stop(),
    });
  }

  fault(kind: LiveFault): void {
    if (kind === "silent") this.#silent = true;
    if (kind === "gone") this.#line(goneEvent);
    if (kind === "garbage") this.#send("<html>not json</html>\n");
    if (kind === "half-line") this.#send('{"type":"MODIFIED","object":{"kind":"Serv');
    if (kind === "reset") {
      const controller = this.#controller;
      this.#stop();
      controller?.error(new Error("reset by the fixture"));
    } else if (kind !== "silent") this.end();
  }

  /** Clean end of the stream. */
  end(): void {
    const controller = this.#controller;
    this.#stop();
    try {
      controller?.close();
    } catch {
      // the client went away first
    }
  }

  #begin(): void {
    const { from, resource, initialEvents, bookmarks, bookmarkMs, timeoutMs } = this.#options;
    if (initialEvents) this.#initial();
    else if (from === undefined) this.#initialObjects();
    else if (from < this.#store.oldest) {
      this.#line(goneEvent);
      this.end();
      return;
    } else for (const write of this.#store.since(resource, from)) this.#write(write);
    this.#unsubscribe = this.#store.subscribe((write) => {
      if (write.resource === resource) this.#write(write);
    });
    if (bookmarks) this.#timers.push(setInterval(() => this.#bookmark(false), bookmarkMs));
    if (timeoutMs > 0) this.#timers.push(setTimeout(() => this.end(), timeoutMs));
  }

  #initial(): void {
    this.#initialObjects();
    this.#bookmark(true);
  }

  #initialObjects(): void {
    const lines: string[] = [];
    for (const one of this.#store.list(this.resource)) {
      if (this.#options.matches(one.object)) lines.push(`{"type":"ADDED","object":${one.text}}\n`);
    }
    if (lines.length > 0) this.#send(lines.join(""));
  }

  #bookmark(end: boolean): void {
    const { apiVersion, kind } = this.resource;
    const annotations = end ? { annotations: { "k8s.io/initial-events-end": "true" } } : {};
    const metadata = { resourceVersion: String(this.#store.version), creationTimestamp: null, ...annotations };
    this.#line({ type: "BOOKMARK", object: { kind, apiVersion, metadata } });
  }

  /** A selector that starts or stops matching turns a change into ADDED or DELETED, as a real server does. */
  #write(write: Write): void {
    const was = write.before !== undefined && this.#options.matches(write.before.object);
    const is = write.after !== undefined && this.#options.matches(write.after.object);
    if (is && write.after !== undefined) {
      this.#send(`{"type":"${was ? "MODIFIED" : "ADDED"}","object":${write.after.text}}\n`);
    } else if (was && write.before !== undefined) {
      const metadata = { ...write.before.object.metadata, resourceVersion: String(write.version) };
      this.#line({ type: "DELETED", object: { ...write.before.object, metadata } });
    }
  }

  #line(event: { readonly type: string; readonly object: ApiObject }): void {
    this.#send(`${JSON.stringify(event)}\n`);
  }

  #send(text: string): void {
    if (this.#silent) return;
    try {
      this.#controller?.enqueue(Buffer.from(text));
    } catch {
      this.#stop();
    }
  }

  #stop(): void {
    if (this.#controller === undefined) return;
    this.#controller = undefined;
    this.#unsubscribe();
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers = [];
    this.#watches.delete(this);
  }
}

export const goneEvent = {
  type: "ERROR",
  object: {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message: "too old resource version: 1 (1000)",
    reason: "Expired",
    code: 410,
  },
};
