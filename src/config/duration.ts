/** Go's duration grammar: `1h30m`, `1.5s`, `-2us`, `0`; printed as Go prints them: `1h30m0s`, `500ms`, `0s`. */
import type { Duration } from "./config.ts";

const milliseconds: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};
/** Go holds durations in 63 bits of nanoseconds. */
const limit = 2 ** 63 / 1e6;

/** Milliseconds, or undefined when the text is no duration (a bare number has no unit, except 0). */
export function parseDuration(text: string): Duration | undefined {
  const sign = text.startsWith("-") ? -1 : 1;
  const body = /^[+-]/.test(text) ? text.slice(1) : text;
  if (body === "0") return 0;
  if (!/^((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$/.test(body)) return undefined;
  let total = 0;
  for (const [, number, unit] of body.matchAll(/([\d.]+)(ns|us|µs|μs|ms|s|m|h)/g)) {
    total += Number(number) * (milliseconds[unit ?? ""] ?? Number.NaN);
  }
  return total < limit ? sign * roundToNanoseconds(total) || 0 : undefined;
}

/** `1h0m0s`, `1m30s`, `2.5s`, `500ms`, `1.5µs`, `0s`. */
export function printDuration(duration: Duration): string {
  const sign = duration < 0 ? "-" : "";
  const ms = Math.abs(duration);
  if (ms === 0) return "0s";
  const nanoseconds = Math.round(ms * 1e6);
  if (nanoseconds < 1000) return `${sign}${nanoseconds}ns`;
  if (nanoseconds < 1_000_000) return `${sign}${decimal(nanoseconds, 1000)}µs`;
  if (nanoseconds < 1_000_000_000) return `${sign}${decimal(nanoseconds, 1_000_000)}ms`;
  return sign + printSeconds(ms);
}

function printSeconds(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  const rest = Math.round((ms - minutes * 60_000) * 1e6);
  const seconds = `${decimal(rest, 1e9)}s`;
  if (minutes === 0) return seconds;
  const hours = Math.floor(minutes / 60);
  return hours === 0 ? `${minutes}m${seconds}` : `${hours}h${minutes % 60}m${seconds}`;
}

/** An integer number of nanoseconds as a decimal fraction of `unit`, without trailing zeros. */
function decimal(nanoseconds: number, unit: number): string {
  const digits = String(nanoseconds % unit).padStart(String(unit).length - 1, "0");
  const fraction = digits.replace(/0+$/, "");
  return `${Math.floor(nanoseconds / unit)}${fraction === "" ? "" : `.${fraction}`}`;
}

function roundToNanoseconds(ms: number): number {
  return ms < 9e9 ? Math.round(ms * 1e6) / 1e6 : ms;
}
