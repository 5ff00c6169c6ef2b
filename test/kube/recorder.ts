/** A log that keeps its lines, and small waits, for the tests of src/kube. */
import { setDefaultTimeout } from "bun:test";
import type { Log, LogFields } from "../../src/model/log.ts";

// the machine may be busy; nothing here asserts a time
setDefaultTimeout(30_000);

export interface Line {
  readonly level: "error" | "warn" | "info" | "debug";
  readonly message: string;
  readonly fields: LogFields;
}

export function recordingLog(): { readonly log: Log; readonly lines: Line[]; text(): string } {
  const lines: Line[] = [];
  const push =
    (level: Line["level"]) =>
    (message: string, fields: LogFields = {}): void => {
      lines.push({ level, message, fields });
    };
  const debug = push("debug");
  const log: Log = {
    error: push("error"),
    warn: push("warn"),
    info: push("info"),
    debug: (_level, message, fields) => debug(message, fields),
  };
  return {
    log,
    lines,
    text: () => lines.map((line) => `${line.level} ${line.message} ${JSON.stringify(line.fields)}`).join("\n"),
  };
}

/** Waits until the condition holds; fails with `what` after 20 s (a bound against hanging, not an expectation). */
export async function until(what: string, condition: () => boolean): Promise<void> {
  const end = performance.now() + 20_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`never happened: ${what}`);
    await Bun.sleep(5);
  }
}
