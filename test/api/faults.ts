/** Faults on demand: what the next matching requests get instead of an answer, and what happens to open watches now. */

export type RequestFault =
  /** An HTTP error with a Status body. */
  | { readonly kind: "status"; readonly code: number; readonly reason?: string; readonly retryAfter?: number }
  /** HTTP 200 and one ERROR event with Status 410 (watches). */
  | { readonly kind: "gone-event" }
  /** Headers, then the connection is cut. */
  | { readonly kind: "reset" }
  /** Accepted, read, never answered. */
  | { readonly kind: "stall" }
  /** HTTP 200 and then silence (watches). */
  | { readonly kind: "silent" }
  /** HTTP 200, half of one JSON line, clean end (watches) or a cut body (lists). */
  | { readonly kind: "half-line" }
  /** HTTP 200 with an HTML page. */
  | { readonly kind: "content-type" }
  /** HTTP 200, a line that is not JSON. */
  | { readonly kind: "garbage" };

export interface FaultRule {
  readonly fault: RequestFault;
  /** Plural resource name, e.g. `services`; absent: any. */
  readonly resource?: string;
  readonly verb?: "list" | "watch" | "get" | "create" | "patch";
  /** How many requests; default 1. */
  readonly times?: number;
}

/** What open watches can be made to do. `silent`: no FIN, no more data, not even bookmarks. */
export type LiveFault = "gone" | "reset" | "silent" | "half-line" | "garbage" | "end";

export class Faults {
  #rules: { rule: FaultRule; left: number }[] = [];
  /** While set nothing is answered and no watch sends: a stopped process behind a live kernel. */
  frozen = false;
  #thawed: (() => void)[] = [];

  next(rule: FaultRule): void {
    this.#rules.push({ rule, left: rule.times ?? 1 });
  }

  clear(): void {
    this.#rules = [];
    this.thaw();
  }

  freeze(): void {
    this.frozen = true;
  }

  thaw(): void {
    this.frozen = false;
    for (const wake of this.#thawed.splice(0)) wake();
  }

  untilThawed(): Promise<void> {
    return this.frozen ? new Promise((resolve) => this.#thawed.push(resolve)) : Promise.resolve();
  }

  /** The fault for this request, used up by asking. */
  take(verb: string, resource: string): RequestFault | undefined {
    const found = this.#rules.find(
      ({ rule }) => (rule.verb ?? verb) === verb && (rule.resource ?? resource) === resource,
    );
    if (found === undefined) return undefined;
    found.left--;
    if (found.left <= 0) this.#rules = this.#rules.filter((one) => one !== found);
    return found.rule.fault;
  }
}
