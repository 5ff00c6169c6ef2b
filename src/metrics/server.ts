/** The handler behind metricsBindAddress: metrics, configuration, status, verbosity and profiles of this process. */
import {
  type Connection,
  type HttpAnswer,
  type HttpHandler,
  methodNotAllowedAnswer,
  notFoundAnswer,
  plainAnswer,
  requestPath,
  respond,
} from "../model/http-answer.ts";
import { pprofPage } from "./pprof-pages.ts";
import type { Profiler } from "./profiling.ts";
import type { Metrics } from "./registry.ts";
import { flagzText, type StatusFacts, slisText, statuszText } from "./status-pages.ts";

export interface MetricsServerOptions {
  readonly metrics: Metrics;
  /** The effective configuration, as JSON data. */
  readonly config: () => unknown;
  /** Every flag and its value. */
  readonly flags: () => ReadonlyMap<string, string>;
  readonly status: () => Omit<StatusFacts, "paths">;
  /** Seconds since the epoch. */
  readonly processStart: number | undefined;
  /** Sets `-v`; returns what is wrong with the text, or undefined. */
  readonly setVerbosity: (text: string) => string | undefined;
  /** With enableProfiling. */
  readonly profiler: Profiler | undefined;
  /** Further pages, asked first. */
  readonly routes?: (path: string, request: Request) => Response | undefined | Promise<Response | undefined>;
}

type Page = (request: Request) => HttpAnswer | Promise<HttpAnswer>;

export const metricsContentType = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
const debugPaths = "/debug/pprof/";

export function metricsHandler(options: MetricsServerOptions): HttpHandler {
  const pages = makePages(options);
  return async (request, connection) => {
    const path = requestPath(request.url);
    const further = await options.routes?.(path, request);
    if (further) return further;
    if (path === "/debug/flags/v") return respond(await verbosityPage(request, options.setVerbosity));
    const page = pages.get(path) ?? profilePage(options.profiler, path, connection);
    if (!page) return respond(notFoundAnswer());
    if (request.method !== "GET" && request.method !== "HEAD") return respond(methodNotAllowedAnswer("GET, HEAD"));
    return respond(await page(request));
  };
}

function makePages(options: MetricsServerOptions): ReadonlyMap<string, Page> {
  let pings = 0;
  const start = options.processStart;
  const startHeader: Record<string, string> = start ? { "Process-Start-Time-Unix": String(Math.floor(start)) } : {};
  const bare = (body: string) => ({ status: 200, headers: { "Content-Type": "text/plain; charset=utf-8" }, body });
  const exposition = (request: Request, body: string): HttpAnswer =>
    compressed(request, { status: 200, headers: { "Content-Type": metricsContentType, ...startHeader }, body });
  const pages: ReadonlyMap<string, Page> = new Map<string, Page>([
    ["/healthz", () => plainAnswer(200, "ok")],
    ["/proxyMode", () => plainAnswer(200, options.metrics.mode)],
    ["/metrics", async (request) => exposition(request, await options.metrics.text())],
    ["/metrics/slis", (request) => exposition(request, slisText(++pings, start))],
    ["/configz", () => configAnswer(options.config())],
    ["/flagz", () => bare(flagzText(options.flags()))],
    ["/statusz", () => bare(statuszText({ ...options.status(), paths: shownPaths(pages, options.profiler) }))],
  ]);
  return pages;
}

function shownPaths(pages: ReadonlyMap<string, Page>, profiler: Profiler | undefined): readonly string[] {
  return [...pages.keys(), "/debug/flags/v", ...(profiler ? [debugPaths] : [])].filter((path) => path !== "/statusz");
}

function configAnswer(config: unknown): HttpAnswer {
  const headers = { "Content-Type": "application/json", "X-Content-Type-Options": "nosniff" };
  return { status: 200, headers, body: JSON.stringify({ "kubeproxy.config.k8s.io": config }) };
}

/** kube-proxy has these answers without a charset. */
async function verbosityPage(request: Request, set: (text: string) => string | undefined): Promise<HttpAnswer> {
  const plain = { "Content-Type": "text/plain" };
  if (request.method !== "PUT") return plainAnswer(406, "unsupported http method\n", plain);
  // A body without a length is not stopped by the server's limit before it is read.
  const text = (await request.text()).trim();
  const problem = text.length > 20 ? "too long for a number" : set(text);
  if (problem !== undefined)
    return plainAnswer(400, `failed to set the verbosity to "${printable(text)}": ${problem}\n`, plain);
  return plainAnswer(200, `successfully set klog.logging.verbosity to ${text}`, plain);
}

function printable(text: string): string {
  return text.slice(0, 20).replace(/[^\x20-\x7e]/g, "?");
}

function profilePage(profiler: Profiler | undefined, path: string, connection: Connection): Page | undefined {
  if (!profiler || !(path.startsWith(debugPaths) || path === debugPaths.slice(0, -1))) return undefined;
  return (request) => pprofPage(profiler, path, request, connection);
}

/** Prometheus asks for gzip; a few kilobytes cost more to pack than to send on loopback. */
function compressed(request: Request, answer: HttpAnswer): HttpAnswer {
  const accepted = /(^|,)\s*gzip\s*(;\s*q=(?!0(\.0*)?\s*(,|$))[^,]*)?(,|$)/i.test(
    request.headers.get("accept-encoding") ?? "",
  );
  if (!accepted || typeof answer.body !== "string" || answer.body.length < 2048) return answer;
  const headers = { ...answer.headers, "Content-Encoding": "gzip", Vary: "Accept-Encoding" };
  return { ...answer, headers, body: Bun.gzipSync(new TextEncoder().encode(answer.body), { level: 1 }) };
}
