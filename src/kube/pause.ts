/** Waiting and deadlines that follow an AbortSignal without leaving anything behind on it. */

/** Resolves after `ms` or, quietly, when the signal is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
  });
}

export interface Linked {
  readonly signal: AbortSignal;
  readonly abort: (reason?: unknown) => void;
  /** Stop the timer, keep the link. */
  readonly noDeadline: () => void;
  /** Must be called once the signal is of no more use: AbortSignal.any would stay registered with a signal as old as the process. */
  readonly release: () => void;
}

/** A signal that follows `parent` and, with `timeoutMs`, ends by itself with a TimeoutError. */
export function linked(parent: AbortSignal, timeoutMs?: number): Linked {
  const own = new AbortController();
  const follow = (): void => own.abort(parent.reason);
  if (parent.aborted) follow();
  else parent.addEventListener("abort", follow, { once: true });
  const expire = (): void => own.abort(new DOMException("no answer in time", "TimeoutError"));
  const timer = timeoutMs === undefined ? undefined : setTimeout(expire, timeoutMs);
  return {
    signal: own.signal,
    abort: (reason) => own.abort(reason),
    noDeadline: () => clearTimeout(timer),
    release: () => {
      clearTimeout(timer);
      parent.removeEventListener("abort", follow);
    },
  };
}

/** Delays that double from `first` to `most` milliseconds, spread by ±50 % so that nodes do not return in step. */
export class BackOff {
  readonly #first: number;
  readonly #most: number;
  #next: number;

  constructor(first: number, most: number) {
    this.#first = first;
    this.#most = most;
    this.#next = first;
  }

  next(): number {
    const delay = this.#next * (0.5 + Math.random());
    this.#next = Math.min(this.#most, this.#next * 2);
    return delay;
  }

  reset(): void {
    this.#next = this.#first;
  }
}
