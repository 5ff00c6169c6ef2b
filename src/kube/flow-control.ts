/** The client's own rate limit: a token bucket of `burst` requests, refilled with `qps` a second. */

export class FlowControl {
  readonly #qps: number;
  readonly #burst: number;
  #tokens: number;
  #at = performance.now();

  /** Negative qps: no limit. Zero: client-go's defaults of 5 and 10. */
  constructor(qps: number, burst: number) {
    this.#qps = qps === 0 ? 5 : qps;
    this.#burst = Math.max(1, burst === 0 ? 10 : burst);
    this.#tokens = this.#burst;
  }

  /** Takes one token, in order of arrival; gives the milliseconds to wait for it. */
  take(): number {
    if (this.#qps < 0) return 0;
    const now = performance.now();
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#at) / 1000) * this.#qps) - 1;
    this.#at = now;
    return this.#tokens >= 0 ? 0 : (-this.#tokens / this.#qps) * 1000;
  }
}
