/** The handler behind healthzBindAddress: `/healthz` for load balancers, `/livez` for restarts, nothing else. */
import {
  type HttpHandler,
  jsonAnswer,
  methodNotAllowedAnswer,
  notFoundAnswer,
  requestPath,
  respond,
} from "../model/http-answer.ts";
import { type HealthFacts, healthBody, judgeHealth } from "./state.ts";

export interface HealthServerOptions {
  /** The facts at this moment. */
  readonly facts: () => HealthFacts;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Told of every answer: `proxy_healthz_total`, `proxy_livez_total`. */
  readonly answered?: (endpoint: "healthz" | "livez", status: number) => void;
}

// HAProxy's `option httpchk` asks with OPTIONS unless told otherwise.
export const probeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

export function healthHandler(options: HealthServerOptions): HttpHandler {
  return (request) => {
    const path = requestPath(request.url);
    if (path !== "/healthz" && path !== "/livez") return respond(notFoundAnswer());
    if (!probeMethods.has(request.method)) return respond(methodNotAllowedAnswer("GET, HEAD, OPTIONS"));
    const now = options.now();
    const answer = healthBody(judgeHealth(options.facts(), now), now, path === "/healthz");
    options.answered?.(path === "/healthz" ? "healthz" : "livez", answer.status);
    return respond(jsonAnswer(answer.status, answer.body));
  };
}
