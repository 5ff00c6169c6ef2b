/** Reads /proc for the process_* metrics at each scrape; prom-client's own collector starts late and costs 107 wake-ups a second. */
import { readdirSync, readFileSync } from "node:fs";
import { processStats } from "./process-stats.ts";
import type { Sample } from "./registry.ts";

/** `root`: where /proc is mounted. */
export function processSource(root = "/proc"): () => readonly Sample[] {
  // The boot time does not change, and /proc/stat is long on large machines.
  const stat = read(`${root}/stat`);
  return () => {
    const values = processStats({
      selfStat: read(`${root}/self/stat`),
      selfStatus: read(`${root}/self/status`),
      selfLimits: read(`${root}/self/limits`),
      selfNetstat: read(`${root}/self/net/netstat`),
      stat,
      openFds: countFds(`${root}/self/fd`),
    });
    return Object.entries(values).map(([name, value]) => ({ name, value }));
  };
}

/** Seconds since the epoch, with a fraction; undefined when /proc does not say. */
export function processStartTime(root = "/proc"): number | undefined {
  return processSource(root)().find((sample) => sample.name === "process_start_time_seconds")?.value;
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function countFds(path: string): number | undefined {
  try {
    // One of them is the listing itself.
    return readdirSync(path).length - 1;
  } catch {
    return undefined;
  }
}
