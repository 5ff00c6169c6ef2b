/** A log that keeps its lines: `warn Message key=value`. */
import type { Log, LogFields } from "../../src/model/log.ts";

export interface RecordingLog extends Log {
  readonly lines: string[];
}

export function recordingLog(): RecordingLog {
  const lines: string[] = [];
  const write =
    (level: string) =>
    (message: string, fields: LogFields = {}) => {
      lines.push([level, message, ...Object.entries(fields).map(([key, value]) => `${key}=${value}`)].join(" "));
    };
  return { lines, error: write("error"), warn: write("warn"), info: write("info"), debug() {} };
}
