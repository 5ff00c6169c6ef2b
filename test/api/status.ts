/** Kubernetes Status answers of the fixture. */

const reasons: Readonly<Record<number, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  405: "MethodNotAllowed",
  409: "AlreadyExists",
  410: "Expired",
  422: "Invalid",
  429: "TooManyRequests",
  500: "InternalError",
  503: "ServiceUnavailable",
};

/** An error answer with a Status body; `retryAfter` in seconds. */
export function statusResponse(
  code: number,
  message: string,
  options: { reason?: string; retryAfter?: number } = {},
): Response {
  const body = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason: options.reason ?? reasons[code] ?? "Unknown",
    code,
  };
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (options.retryAfter !== undefined) headers["retry-after"] = String(options.retryAfter);
  return new Response(JSON.stringify(body), { status: code, headers });
}

export function json(value: unknown, status = 200): Response {
  return new Response(typeof value === "string" ? value : JSON.stringify(value), {
    status,
    headers: { "content-type": "application/json" },
  });
}
