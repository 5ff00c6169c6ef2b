/** CPU time and memory of a process and of the children that it has waited for, from /proc. */
import { readFileSync } from "node:fs";

export interface Usage {
  /** Milliseconds of CPU of the process itself, and of its ended children (the tools). */
  readonly own: number;
  readonly tools: number;
  /** Megabytes. */
  readonly resident: number;
  readonly anonymous: number;
}

/** Clock ticks are 10 ms on every Linux we know. */
const tick = 10;

export function usageOf(pid: number): Usage {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number);
  const at = (i: number): number => (fields[i] ?? 0) * tick;
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const megabytes = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1] ?? 0) / 1024;
  return {
    own: at(11) + at(12),
    tools: at(13) + at(14),
    resident: megabytes("VmRSS"),
    anonymous: megabytes("RssAnon"),
  };
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2;
}
