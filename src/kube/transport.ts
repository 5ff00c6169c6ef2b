/** HTTP to the API server over Bun's fetch: credentials, deadlines, rate limit, and errors that say what to do. */
import type { Log } from "../model/log.ts";
import { ApiError, type ApiErrorFacts } from "./api-error.ts";
import { firstText, isJson, retryAfterMs, type StatusBody, statusBody } from "./api-response.ts";
import type { ClusterAccess } from "./cluster-access.ts";
import { Credentials } from "./credentials.ts";
import { FlowControl } from "./flow-control.ts";
import { type Linked, linked, pause } from "./pause.ts";

export interface ApiRequest {
  /** What the request is about, for errors and RBAC hints. */
  readonly verb: "list" | "watch" | "get" | "create" | "patch";
  /** Plural, with group: `services`, `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  /** Path and query below the server URL. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default application/json. */
  readonly contentType?: string;
  readonly signal: AbortSignal;
  /** Until the whole answer is in (a stream: until its headers are). */
  readonly timeoutMs?: number;
}

/** One finished request, for metrics. */
export interface RequestReport {
  /** HTTP method. */
  readonly method: string;
  readonly verb: ApiRequest["verb"];
  readonly host: string;
  /** `200`, or `<error>` when there was no answer. */
  readonly code: string;
  readonly seconds: number;
  readonly requestBytes: number;
  readonly responseBytes: number;
  /** Seconds spent waiting for our own rate limit. */
  readonly throttledSeconds: number;
}

export interface TransportOptions {
  readonly log: Log;
  readonly userAgent: string;
  /** Requests a second and burst; negative qps: no limit, 0: 5 and 10. */
  readonly qps: number;
  readonly burst: number;
  readonly onRequest?: (report: RequestReport) => void;
  /** Told of the headers of every answer (doctor compares clocks). */
  readonly onHeaders?: (headers: Headers) => void;
  /** Default deadline of unary requests, 30,000 ms. */
  readonly timeoutMs?: number;
}

export interface OpenStream {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  /** The `tlsVersion` of the credentials it was opened with. */
  readonly tlsVersion: number;
  /** Frees the connection and what is buffered of the answer. */
  readonly close: () => Promise<void>;
}

export class Transport {
  readonly server: string;
  readonly #host: string;
  readonly #options: TransportOptions;
  readonly #credentials: Credentials;
  readonly #flow: FlowControl;
  #lastContact = 0;

  constructor(access: ClusterAccess, options: TransportOptions) {
    this.server = access.server;
    this.#host = new URL(access.server).host;
    this.#options = options;
    this.#credentials = new Credentials(access, options.log);
    this.#flow = new FlowControl(options.qps, options.burst);
  }

  /** When the API server last said anything to us, in milliseconds since the epoch; 0: never. */
  get lastContact(): number {
    return this.#lastContact;
  }

  /** Called by readers of streams for every chunk. */
  heard(): void {
    this.#lastContact = Date.now();
  }

  /** Version of the TLS credentials as they are on disk now. Throws KubeconfigError. */
  async tlsVersion(): Promise<number> {
    return (await this.#credentials.get()).tlsVersion;
  }

  /** A unary request; gives the parsed JSON. Throws ApiError or KubeconfigError. */
  async request(request: ApiRequest): Promise<unknown> {
    const throttled = this.#flow.take();
    if (throttled > 0) await pause(throttled, request.signal);
    const link = linked(request.signal, request.timeoutMs ?? this.#options.timeoutMs ?? 30_000);
    try {
      return await this.#unary(request, link.signal, throttled);
    } finally {
      link.release();
    }
  }

  /**
   * Opens a stream of JSON lines. Its deadline ends with the headers: the reader watches over it from then on, and
   * ends it by aborting `request.signal`. Not rate-limited, as in client-go.
   */
  async stream(request: ApiRequest): Promise<OpenStream> {
    const link = linked(request.signal, request.timeoutMs ?? 30_000);
    try {
      const { response, started, tlsVersion } = await this.#send(request, link.signal, 0);
      this.#report(request, { code: String(response.status), started, responseBytes: 0, throttled: 0 });
      this.heard();
      if (!response.ok) throw this.#refused(request, response, await response.text().catch(() => ""));
      if (!isJson(response)) this.#checkType(request, response, await firstText(response));
      const reader = response.body?.getReader();
      if (reader === undefined) throw this.#bad(request, response, "empty answer");
      link.noDeadline();
      return {
        reader: reader as ReadableStreamDefaultReader<Uint8Array>,
        tlsVersion,
        close: () => closeStream(reader, link),
      };
    } catch (error) {
      link.release();
      throw error;
    }
  }

  /** The error of a stream that broke, for its reader. */
  streamError(request: Pick<ApiRequest, "verb" | "resource">, cause: unknown): ApiError {
    return cause instanceof ApiError ? cause : this.#unreachable(request, cause);
  }

  /** The error that a Status object inside a stream stands for. */
  statusError(request: Pick<ApiRequest, "verb" | "resource">, status: unknown): ApiError {
    const { code, reason, message, details } = (status ?? {}) as StatusBody;
    return this.#error(request, {
      status: typeof code === "number" ? code : 500,
      reason: typeof reason === "string" ? reason : "Unknown",
      detail: typeof message === "string" ? message : "",
      retryAfterMs: typeof details?.retryAfterSeconds === "number" ? details.retryAfterSeconds * 1000 : 0,
    });
  }

  // --- internal ---

  async #unary(request: ApiRequest, signal: AbortSignal, throttled: number): Promise<unknown> {
    const { response, started } = await this.#send(request, signal, throttled);
    let text: string;
    try {
      text = await response.text();
    } catch (cause) {
      throw this.#unreachable(request, cause);
    }
    this.#report(request, { code: String(response.status), started, responseBytes: text.length, throttled });
    this.heard();
    if (!response.ok) throw this.#refused(request, response, text);
    this.#checkType(request, response, text);
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw this.#bad(request, response, "the answer is not JSON", cause);
    }
  }

  #bad(request: ApiRequest, response: Response, detail: string, cause?: unknown): ApiError {
    return this.#error(request, { status: response.status, reason: "BadAnswer", detail }, cause);
  }

  /** Sends, and once more with fresh credentials when they are refused (a token file that was just rotated, an exec plugin). */
  async #send(request: ApiRequest, signal: AbortSignal, throttled: number) {
    const first = await this.#fetch(request, signal, throttled);
    if (first.response.status !== 401) return first;
    this.#credentials.rejected();
    const again = await this.#credentials.get();
    if (again.headers["authorization"] === first.authorization && again.tlsVersion === first.tlsVersion) return first;
    await first.response.body?.cancel().catch(() => {});
    return this.#fetch(request, signal, throttled);
  }

  async #fetch(request: ApiRequest, signal: AbortSignal, throttled: number) {
    const { tls, headers, proxy, tlsVersion } = await this.#credentials.get();
    const started = performance.now();
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    try {
      const response = await fetch(this.server + request.path, {
        method: methods[request.verb],
        headers: {
          accept: "application/json",
          "user-agent": this.#options.userAgent,
          ...(body === undefined ? {} : { "content-type": request.contentType ?? "application/json" }),
          ...headers,
        },
        ...(body === undefined ? {} : { body }),
        ...(proxy === undefined ? {} : { proxy }),
        redirect: "manual",
        signal,
        tls,
        // BUN_CONFIG_VERBOSE_FETCH would print our token
        verbose: false,
        // Bun's own idle timer is coarse; we have better ones
        timeout: false,
      } as BunFetchRequestInit);
      this.#options.onHeaders?.(response.headers);
      return { response, started, tlsVersion, authorization: headers["authorization"] };
    } catch (cause) {
      this.#report(request, { code: "<error>", started, responseBytes: 0, throttled });
      throw this.#unreachable(request, cause);
    }
  }

  #report(
    request: ApiRequest,
    facts: {
      readonly code: string;
      readonly started: number;
      readonly responseBytes: number;
      readonly throttled: number;
    },
  ): void {
    const requestBytes = request.body === undefined ? 0 : JSON.stringify(request.body).length;
    this.#options.onRequest?.({
      method: methods[request.verb],
      verb: request.verb,
      host: this.#host,
      code: facts.code,
      seconds: (performance.now() - facts.started) / 1000,
      requestBytes,
      responseBytes: facts.responseBytes,
      throttledSeconds: facts.throttled / 1000,
    });
  }

  #checkType(request: ApiRequest, response: Response, text: string): void {
    if (isJson(response)) return;
    const type = response.headers.get("content-type") ?? "nothing";
    const detail = `the answer is ${type} instead of JSON (${JSON.stringify(text.slice(0, 60))}): is something else listening there, or a proxy in between?`;
    throw this.#bad(request, response, detail);
  }

  #refused(request: ApiRequest, response: Response, text: string): ApiError {
    const body = statusBody(text);
    return this.#error(request, {
      status: response.status,
      reason: typeof body.reason === "string" ? body.reason : response.statusText,
      detail: typeof body.message === "string" ? body.message : text,
      retryAfterMs: retryAfterMs(response, body),
    });
  }

  #unreachable(request: Pick<ApiRequest, "verb" | "resource">, cause: unknown): ApiError {
    const { code, name, message } = cause as { code?: unknown; name?: string; message?: string };
    // a DOMException has a numeric code
    const reason = typeof code === "string" ? code : (name ?? "Error");
    return this.#error(request, { status: 0, reason, detail: message ?? String(cause) }, cause);
  }

  #error(
    request: Pick<ApiRequest, "verb" | "resource">,
    facts: Pick<ApiErrorFacts, "status" | "reason" | "detail"> & { readonly retryAfterMs?: number },
    cause?: unknown,
  ): ApiError {
    const { verb, resource } = request;
    return new ApiError({ verb, resource, server: this.server, retryAfterMs: 0, ...facts }, { cause });
  }
}

const methods = { list: "GET", watch: "GET", get: "GET", create: "POST", patch: "PATCH" } as const;

/** Cancel first: an aborted body that still has a reader keeps its buffer (Bun #32659). */
async function closeStream(reader: { cancel(): Promise<void> }, link: Linked): Promise<void> {
  await reader.cancel().catch(() => {});
  link.abort();
  link.release();
}
