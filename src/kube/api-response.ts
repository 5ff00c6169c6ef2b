/** Reading answers of the API server, or of whatever sits in front of it. */

/** A Status object as far as it can be trusted to be one. */
export interface StatusBody {
  readonly code?: unknown;
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly details?: { readonly retryAfterSeconds?: unknown };
}

export function statusBody(text: string): StatusBody {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as StatusBody) : {};
  } catch {
    return {};
  }
}

/** From the header, else from the Status; 0: none. An HTTP date is not read: our own back-off will do. */
export function retryAfterMs(response: Response, body: StatusBody): number {
  const seconds = Number(response.headers.get("retry-after") ?? body.details?.retryAfterSeconds ?? 0);
  return seconds > 0 ? seconds * 1000 : 0;
}

export function isJson(response: Response): boolean {
  return /^application\/json\b/i.test(response.headers.get("content-type") ?? "");
}

/** The first bytes of an answer, however long it is. */
export async function firstText(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const chunk = await reader?.read();
  await reader?.cancel().catch(() => {});
  return Buffer.from((chunk?.value as Uint8Array | undefined) ?? []).toString();
}
