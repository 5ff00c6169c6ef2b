/** The logger of model/log.ts over consola: klog's text form or JSON lines, verbosity that can be changed while running. */
import { type ConsolaReporter, createConsola } from "consola/core";
import type { Logging, VModuleRule } from "../config/config.ts";
import type { Log, LogFields } from "../model/log.ts";
import { LineWriter } from "./line-writer.ts";
import { jsonLine, klogLine, type LogEntry } from "./log-line.ts";

export interface RootLog extends Log {
  /** The same log for a part of the program: its name stands where klog has the file, and --vmodule matches it. */
  named(source: string): Log;
  /** Takes effect at once, for all parts (PUT /debug/flags/v). */
  setVerbosity(level: number): void;
  verbosity(): number;
}

export interface LogOptions {
  readonly format: "text" | "json";
  readonly verbosity: number;
  readonly vmodule: readonly VModuleRule[];
  /** Errors to stderr, the rest to stdout; else all to stderr. */
  readonly splitStream: boolean;
  /** Replace the clock, the process id and the two streams, for tests. */
  readonly now?: () => number;
  readonly pid?: number;
  readonly write?: (fd: 1 | 2, line: string) => void;
}

/** Verbosity and rules that all named parts share. */
interface Levels {
  verbosity: number;
  readonly vmodule: readonly { readonly pattern: RegExp; readonly verbosity: number }[];
}

/** The options that the configuration asks for. */
export function logOptions({ format, verbosity, vmodule, options }: Logging): LogOptions {
  return { format, verbosity, vmodule, splitStream: options[format].splitStream };
}

export function createLog(options: LogOptions): RootLog {
  const levels: Levels = {
    verbosity: options.verbosity,
    vmodule: options.vmodule.map(({ filePattern, verbosity }) => ({ pattern: glob(filePattern), verbosity })),
  };
  // Throttling would drop equal lines; levels are ours, so consola lets everything through.
  const consola = createConsola({ throttle: 0, level: 999, reporters: [makeReporter(options)] });
  const named = (source: string): Log => {
    const ruled = levels.vmodule.find(({ pattern }) => pattern.test(source))?.verbosity ?? 0;
    return {
      error: (message, fields) => consola.error(message, { v: 0, source, fields }),
      warn: (message, fields) => consola.warn(message, { v: 0, source, fields }),
      info: (message, fields) => consola.info(message, { v: 0, source, fields }),
      debug: (level, message, fields) => {
        if (level <= levels.verbosity || level <= ruled) consola.debug(message, { v: level, source, fields });
      },
    };
  };
  return {
    ...named("kube-proxy"),
    named,
    setVerbosity: (level) => {
      levels.verbosity = level;
    },
    verbosity: () => levels.verbosity,
  };
}

/** Says nothing. */
export const silentLog: RootLog = createSilentLog();

function createSilentLog(): RootLog {
  const nothing = () => {};
  const log: Log = { error: nothing, warn: nothing, info: nothing, debug: nothing };
  return { ...log, named: () => log, setVerbosity: nothing, verbosity: () => 0 };
}

function makeReporter(options: LogOptions): ConsolaReporter {
  const write = options.write ?? standardStreams();
  const now = options.now ?? (() => performance.timeOrigin + performance.now());
  const print = options.format === "json" ? jsonLine : klogLine;
  const pid = options.pid ?? process.pid;
  return {
    log: ({ type, args: [message, detail] }) => {
      const { v, source, fields = {} } = detail as { v: number; source: string; fields?: LogFields };
      const level: LogEntry["level"] = type === "error" || type === "warn" ? type : "info";
      const line = print({ level, v, source, message: String(message), fields, time: now(), pid });
      write(options.splitStream && level !== "error" ? 1 : 2, line);
    },
  };
}

function standardStreams(): (fd: 1 | 2, line: string) => void {
  const writers = { 1: new LineWriter(1), 2: new LineWriter(2) };
  return (fd, line) => writers[fd].write(line);
}

/** klog's file patterns: `*` and `?`. */
function glob(pattern: string): RegExp {
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`);
}
