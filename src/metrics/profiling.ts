/** CPU profiles and heap snapshots of this process, in the formats Bun has (measured: both work in the compiled binary). */
import { Session } from "node:inspector";

export interface Profiler {
  /** A `.cpuprofile` (JSON, opened by Chrome DevTools and VS Code). Rejects when one is being taken. */
  cpuProfile(seconds: number, abort: AbortSignal): Promise<string>;
  /** A V8 `.heapsnapshot` (JSON). Stops the world while it is taken. */
  heapSnapshot(): string;
}

export class ProfilerBusyError extends Error {
  constructor() {
    super("a CPU profile is being taken already, try again later");
  }
}

export function createProfiler(): Profiler {
  let busy = false;
  return {
    async cpuProfile(seconds, abort) {
      if (busy) throw new ProfilerBusyError();
      busy = true;
      const session = new Session();
      session.connect();
      try {
        await post(session, "Profiler.enable");
        await post(session, "Profiler.setSamplingInterval", { interval: 1000 });
        await post(session, "Profiler.start");
        await pause(seconds * 1000, abort);
        const answer = await post(session, "Profiler.stop");
        return JSON.stringify(answer && typeof answer === "object" && "profile" in answer ? answer.profile : answer);
      } finally {
        session.disconnect();
        busy = false;
      }
    },
    heapSnapshot: () => Bun.generateHeapSnapshot("v8"),
  };
}

function post(session: Session, method: string, params: object = {}): Promise<unknown> {
  return new Promise((settle, fail) => {
    session.post(method, params, (error, answer) => (error ? fail(error) : settle(answer)));
  });
}

function pause(ms: number, abort: AbortSignal): Promise<void> {
  return new Promise((settle) => {
    const timer = setTimeout(settle, ms);
    abort.addEventListener("abort", () => {
      clearTimeout(timer);
      settle();
    });
  });
}
