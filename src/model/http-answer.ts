/** Answers of our small HTTP servers as data, with the texts kube-proxy's answers have; shared by health and metrics. */

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array<ArrayBuffer>;
}

export interface Connection {
  /** The client came over loopback. */
  readonly local: boolean;
  /** Lifts the idle limit to so many seconds, for answers that take long. */
  extend(seconds: number): void;
}

/** Serves one request. */
export type HttpHandler = (request: Request, connection: Connection) => Response | Promise<Response>;

const nosniff = { "X-Content-Type-Options": "nosniff" };

/** Text, with the headers that Go's http.Error sends. */
export function plainAnswer(status: number, body: string, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...nosniff, ...headers }, body };
}

/** `body`: JSON text. */
export function jsonAnswer(status: number, body: string, headers: Readonly<Record<string, string>> = {}): HttpAnswer {
  return { status, headers: { "Content-Type": "application/json", ...nosniff, ...headers }, body };
}

/** Go's text for a path that nobody serves. */
export function notFoundAnswer(): HttpAnswer {
  return plainAnswer(404, "404 page not found\n");
}

/** `allowed`: the methods, as the Allow header lists them. */
export function methodNotAllowedAnswer(allowed: string): HttpAnswer {
  return plainAnswer(405, `405 method not allowed, use ${allowed}\n`, { Allow: allowed });
}

/** The answer as the object that the runtime sends. */
export function respond(answer: HttpAnswer): Response {
  return new Response(answer.body, { status: answer.status, headers: { ...answer.headers } });
}

/** The path of a request target, without the query. Bun leaves `url` relative for HTTP/1.0 and Host-less requests. */
export function requestPath(url: string): string {
  const afterScheme = url.startsWith("/") ? 0 : url.indexOf("/", url.indexOf("://") + 3);
  if (afterScheme < 0) return "/";
  const end = url.slice(afterScheme).search(/[?#]/);
  return end < 0 ? url.slice(afterScheme) : url.slice(afterScheme, afterScheme + end);
}

/** Query parameters of a request target, absolute or relative. */
export function requestQuery(url: string): URLSearchParams {
  const start = url.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : url.slice(start + 1));
}
