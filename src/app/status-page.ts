/** The status page at `/` of the metrics server, and the JSON that it reads: one self-contained, read-only document. */
import { type HttpAnswer, jsonAnswer, methodNotAllowedAnswer, requestQuery, respond } from "../model/http-answer.ts";
import type { ProxyStatus } from "./status.ts";
import script from "./status-page.client.js" with { type: "text" };
import style from "./status-page.css" with { type: "text" };
import page from "./status-page.html" with { type: "text" };
import { explainQuery, serviceQuery } from "./status-page-explain.ts";
import { findServices } from "./status-page-services.ts";

/** A route for metricsHandler; undefined for paths that are not of the page. */
export function statusPageRoute(status: ProxyStatus): (path: string, request: Request) => Response | undefined {
  const document = makeDocument();
  return (path, request) => {
    const make = path === "/" ? () => document : dataOf(status, path);
    if (make === undefined) return undefined;
    if (request.method !== "GET" && request.method !== "HEAD") return respond(methodNotAllowedAnswer("GET, HEAD"));
    return respond(make(requestQuery(request.url)));
  };
}

// --- internal ---

function dataOf(status: ProxyStatus, path: string): ((query: URLSearchParams) => HttpAnswer) | undefined {
  switch (path) {
    case "/explain":
      return (query) => json(explainQuery(status, query.get("from") ?? "", query.get("to") ?? ""));
    case "/services.json":
      return (query) => json(findServices(plansOf(status), query.get("q") ?? "", offsetOf(query)));
    case "/service.json":
      return (query) => json(serviceQuery(status, query.get("name") ?? ""));
    case "/history.json":
      return () => json(status.history.json(Date.now()));
    default:
      return undefined;
  }
}

function plansOf(status: ProxyStatus) {
  return [...status.families].flatMap(([family, { plan }]) => (plan === undefined ? [] : [[family, plan] as const]));
}

function offsetOf(query: URLSearchParams): number {
  const text = query.get("offset") ?? "0";
  return /^\d{1,7}$/.test(text) ? Number(text) : 0;
}

function json(body: object): HttpAnswer {
  return jsonAnswer("error" in body ? 400 : 200, `${JSON.stringify(body)}\n`, { "Cache-Control": "no-store" });
}

/** Nothing may be loaded or run but what stands in the document itself, and data of this server. */
function makeDocument(): HttpAnswer {
  const policy = [
    "default-src 'none'",
    `script-src 'sha256-${hash(script)}'`,
    `style-src 'sha256-${hash(style)}'`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  const template = page as unknown as string;
  const body = template.replace("/*STYLE*/", () => style).replace("/*SCRIPT*/", () => script);
  return {
    status: 200,
    headers: {
      "Content-Type": "text/html; charset=utf-8",
      "Content-Security-Policy": policy.join("; "),
      "X-Content-Type-Options": "nosniff",
      "Referrer-Policy": "no-referrer",
      "Cache-Control": "no-cache",
    },
    body,
  };
}

function hash(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("base64");
}
