/** A long-lived monitor child that tells of every nftables change; restarted when it dies, absent where there is none. */
import { findTool, systemToolDirs } from "../host/tool-path.ts";
import type { Log } from "../model/log.ts";
import { type MonitorEvent, parseXtablesMonitorLine } from "../tools/xtables-monitor.ts";

export interface MonitorOptions {
  readonly log: Log;
  readonly onEvent: (event: MonitorEvent) => void;
  readonly toolDirs?: readonly string[];
}

const longestPause = 300_000;

/**
 * `xtables-monitor` on a pseudo terminal: on a pipe it keeps its lines for 4 KB (measured, iptables 1.8.9). Without it,
 * or where no terminal can be had, drift is found by polling alone.
 */
export class Monitor {
  readonly #options: MonitorOptions;
  #child: Bun.Subprocess | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #rest = "";

  constructor(options: MonitorOptions) {
    this.#options = options;
    this.#start(1_000);
  }

  /** Events are coming. */
  get running(): boolean {
    return this.#child !== undefined;
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#child?.kill("SIGKILL");
  }

  // --- internal ---

  #start(pause: number): void {
    const { log, toolDirs = systemToolDirs } = this.#options;
    const path = findTool("xtables-monitor", toolDirs);
    if (path === undefined) {
      log.info("No xtables-monitor here: changes by others are found by polling (package iptables has it)");
      return;
    }
    const startedAt = performance.now();
    try {
      const child = Bun.spawn([path, "-e"], {
        terminal: { cols: 4000, rows: 24, data: (_, chunk) => this.#read(chunk) },
        cwd: "/",
        env: { PATH: systemToolDirs.join(":"), LC_ALL: "C" },
      });
      this.#child = child;
      void child.exited.then(() => this.#ended(performance.now() - startedAt, pause));
    } catch (error) {
      log.warn("The monitor could not be started: changes by others are found by polling", { reason: String(error) });
    }
  }

  #ended(livedMs: number, pause: number): void {
    this.#child = undefined;
    this.#rest = "";
    if (this.#closed) return;
    const next = livedMs > 60_000 ? 1_000 : Math.min(pause * 2, longestPause);
    this.#options.log.debug(1, "The monitor ended, starting it again", { afterMs: pause });
    this.#timer = setTimeout(() => this.#start(next), pause);
  }

  #read(chunk: Uint8Array): void {
    const lines = (this.#rest + new TextDecoder().decode(chunk)).split("\n");
    this.#rest = (lines.pop() ?? "").slice(-10_000);
    for (const line of lines) {
      const event = parseXtablesMonitorLine(line);
      if (event !== undefined) this.#options.onEvent(event);
    }
  }
}
