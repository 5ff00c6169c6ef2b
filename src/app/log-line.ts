/** One log line as text: klog's form and JSON. Nothing that comes from outside can break a line or colour a terminal. */
import type { LogFields, LogValue } from "../model/log.ts";

export interface LogEntry {
  readonly level: "error" | "warn" | "info";
  /** Verbosity that let it through; 0 for the ones always printed. */
  readonly v: number;
  /** Part of the program, in klog's place for the source file. */
  readonly source: string;
  readonly message: string;
  readonly fields: LogFields;
  /** Milliseconds since the epoch, with a fraction. */
  readonly time: number;
  readonly pid: number;
}

/** `I1130 12:00:00.000000    1234 source] "Message" key="value" n=3 list=["a","b"]`, in local time. */
export function klogLine(entry: LogEntry): string {
  const fields = Object.entries(entry.fields).map(([key, value]) => ` ${keyText(key)}=${valueText(value)}`);
  const letter = { error: "E", warn: "W", info: "I" }[entry.level];
  const pid = String(entry.pid).padStart(7);
  return `${letter}${klogTime(entry.time)} ${pid} ${entry.source}] ${quote(entry.message)}${fields.join("")}`;
}

/** `{"ts":1669.5,"caller":"source","msg":"Message","v":0,"key":"value"}`; `ts` in milliseconds, no `v` in errors. */
export function jsonLine(entry: LogEntry): string {
  const fields = Object.entries(entry.fields).filter(([key, value]) => value !== undefined && !reserved.has(key));
  return escapeUnprintable(
    JSON.stringify({
      ts: Math.round(entry.time * 1000) / 1000,
      caller: entry.source,
      msg: entry.message,
      ...(entry.level === "error" ? {} : { v: entry.v }),
      level: entry.level,
      ...Object.fromEntries(fields),
    }),
  );
}

const reserved: ReadonlySet<string> = new Set(["ts", "caller", "msg", "v", "level"]);

function keyText(key: string): string {
  return /^[\w./-]+$/.test(key) ? key : quote(key);
}

function valueText(value: LogValue): string {
  if (value === undefined || value === null) return "<nil>";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quote(value);
  return `[${value.map(valueText).join(",")}]`;
}

function quote(text: string): string {
  return escapeUnprintable(JSON.stringify(text));
}

/** JSON leaves DEL, C1 controls, line separators and direction marks alone: escape them too. */
function escapeUnprintable(json: string): string {
  return json.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (mark) =>
    [...Array(mark.length).keys()].map((i) => `\\u${mark.charCodeAt(i).toString(16).padStart(4, "0")}`).join(""),
  );
}

function klogTime(time: number): string {
  const date = new Date(time);
  const two = (n: number) => String(n).padStart(2, "0");
  const micros = String(Math.floor((time - Math.floor(time)) * 1000) + date.getMilliseconds() * 1000).padStart(6, "0");
  const day = two(date.getMonth() + 1) + two(date.getDate());
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${micros}`;
}
