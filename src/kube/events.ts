/** Events on the Node for `kubectl get events`: sent in the background, bounded, and never in the way of anything. */
import type { EventsV1Event } from "@kubernetes/client-node";
import type { Log } from "../model/log.ts";
import { ApiError } from "./api-error.ts";
import type { Transport } from "./transport.ts";

export interface EventFacts {
  readonly type: "Normal" | "Warning";
  /** CamelCase, e.g. `Starting`. */
  readonly reason: string;
  /** What we did or failed to do, e.g. `StartKubeProxy`. */
  readonly action: string;
  /** For people; cut at 1,000 characters. */
  readonly note: string;
  /** `namespace/name` of the Service it is about; absent: the Node. */
  readonly service?: string;
}

export interface EventRecorderOptions {
  readonly transport: Transport;
  readonly nodeName: string;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Times travel as text; the client's classes would cost start-up time. */
type EventBody = Omit<EventsV1Event, "eventTime" | "series"> & { readonly eventTime: string };

interface Series {
  /** Path of the Event object once it exists. */
  path: string;
  count: number;
  at: number;
}

/** Older ones are dropped: an event is a courtesy. */
const queueLimit = 100;
/** The same news within this time is counted on the Event that exists instead of making a new one. */
const seriesMs = 6 * 60_000;

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #queue: EventFacts[] = [];
  readonly #series = new Map<string, Series>();
  readonly #instance: string;
  #working = false;
  #number = 0;
  #complained = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#instance = `kube-proxy-${options.nodeName}`.slice(0, 128);
  }

  /** Queues an event and returns at once. */
  record(facts: EventFacts): void {
    if (this.#queue.length >= queueLimit) this.#queue.shift();
    this.#queue.push(facts);
    if (!this.#working) void this.#work();
  }

  // --- internal ---

  async #work(): Promise<void> {
    this.#working = true;
    try {
      for (let facts = this.#queue.shift(); facts !== undefined; facts = this.#queue.shift()) {
        if (this.#options.signal.aborted) return;
        await this.#send(facts).catch((error: unknown) => this.#failed(error));
      }
    } finally {
      this.#working = false;
    }
  }

  async #send(facts: EventFacts): Promise<void> {
    const key = [facts.type, facts.reason, facts.action, facts.note, facts.service].join("\n");
    const now = Date.now();
    for (const [old, series] of this.#series) if (now - series.at > seriesMs) this.#series.delete(old);
    const series = this.#series.get(key);
    if (series !== undefined && (await this.#repeat(series, now))) return;
    const path = await this.#create(facts, now);
    if (this.#series.size >= queueLimit) this.#series.clear();
    this.#series.set(key, { path, count: 1, at: now });
  }

  /** False when the Event is gone: it is made anew. */
  async #repeat(series: Series, now: number): Promise<boolean> {
    series.count++;
    series.at = now;
    const body = { series: { count: series.count, lastObservedTime: microTime(now) } };
    try {
      await this.#options.transport.request({
        verb: "patch",
        resource: "events.events.k8s.io",
        path: series.path,
        body,
        contentType: "application/merge-patch+json",
        signal: this.#options.signal,
        timeoutMs: 10_000,
      });
      return true;
    } catch (error) {
      if (error instanceof ApiError && error.facts.status === 404) return false;
      throw error;
    }
  }

  async #create(facts: EventFacts, now: number): Promise<string> {
    const { nodeName, transport, signal } = this.#options;
    const [namespace = "default", service] = facts.service?.split("/") ?? ["default"];
    const name = `${nodeName}.${now.toString(16)}${(this.#number++).toString(16).padStart(3, "0")}`;
    const path = `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
    const body: EventBody = {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name, namespace },
      eventTime: microTime(now),
      type: facts.type,
      reason: facts.reason,
      action: facts.action,
      note: facts.note.slice(0, 1000),
      reportingController: "kube-proxy",
      reportingInstance: this.#instance,
      regarding:
        service === undefined
          ? { kind: "Node", name: nodeName, uid: nodeName }
          : { apiVersion: "v1", kind: "Service", namespace, name: service },
    };
    await transport.request({
      verb: "create",
      resource: "events.events.k8s.io",
      path,
      body,
      signal,
      timeoutMs: 10_000,
    });
    return `${path}/${name}`;
  }

  /** Said once: without the right to write events nothing else is wrong. */
  #failed(error: unknown): void {
    if (this.#options.signal.aborted || this.#complained) return;
    this.#complained = true;
    this.#options.log.warn("Cannot write events; later failures are not reported", {
      error: error instanceof Error ? error.message : String(error),
    });
  }
}

/** RFC 3339 with microseconds, as the API wants it. */
function microTime(ms: number): string {
  return new Date(ms).toISOString().replace("Z", "000Z");
}
