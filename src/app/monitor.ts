/** Long-lived monitor children that tell of every nftables change; restarted when they end, absent where there is none. */
import { findTool, systemToolDirs } from "../host/tool-path.ts";
import type { Log } from "../model/log.ts";
import { type MonitorEvent, parseXtablesMonitorLine } from "../tools/xtables-monitor.ts";

export interface MonitorOptions {
  readonly log: Log;
  /** The other family's objects are not shown, all transactions are. */
  readonly family: "-4" | "-6";
  readonly onEvent: (event: MonitorEvent) => void;
  /** It ended by itself and will start again; `lastLine`: what it was printing. */
  readonly onEnd: (lastLine: string) => void;
  readonly onRestart: () => void;
  readonly toolDirs?: readonly string[];
}

const shortestPause = 50;
const longestPause = 60_000;
/** Living so long is no failure to start. */
const wellMs = 1_000;

/**
 * `xtables-monitor` on a pseudo terminal: on a pipe it keeps its lines for 4 KB (measured, iptables 1.8.9). It ends at
 * a rule that iptables cannot express (`meta mark set …`), also at ours in nftables mode; with one monitor for each
 * family the other one survives to name the process. Without it, or where no terminal can be had, drift is found by
 * polling alone.
 */
export class Monitor {
  readonly #options: MonitorOptions;
  #child: Bun.Subprocess | undefined;
  /** Killed by `pause`. */
  #ending: Bun.Subprocess | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #paused = false;
  #rest = "";
  #pause = shortestPause;

  constructor(options: MonitorOptions) {
    this.#options = options;
    this.#start();
  }

  /** Events are coming. */
  get running(): boolean {
    return this.#child !== undefined;
  }

  /** Ends it until `resume`: a bulk of our own changes would cost it as much as the tool (30 s of CPU for 160,000 rules). */
  pause(): void {
    this.#paused = true;
    clearTimeout(this.#timer);
    this.#ending = this.#child;
    this.#child?.kill("SIGKILL");
  }

  resume(): void {
    if (!this.#paused) return;
    this.#paused = false;
    if (this.#child !== undefined) return;
    this.#start();
    this.#options.onRestart();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#child?.kill("SIGKILL");
  }

  // --- internal ---

  #start(): void {
    const { log, family, toolDirs = systemToolDirs } = this.#options;
    const path = findTool("xtables-monitor", toolDirs);
    if (path === undefined) {
      // Once is enough.
      if (family === "-4")
        log.info("No xtables-monitor here: changes by others are found by polling (package iptables has it)");
      return;
    }
    const startedAt = performance.now();
    try {
      const child = Bun.spawn([path, "-e", family], {
        terminal: { cols: 4000, rows: 24, data: (_, chunk) => this.#read(chunk) },
        cwd: "/",
        env: { PATH: systemToolDirs.join(":"), LC_ALL: "C" },
      });
      this.#child = child;
      // The terminal's last bytes come after the exit.
      void child.exited.then(() =>
        setTimeout(() => {
          // Bun keeps the terminal's descriptors otherwise.
          child.terminal?.close();
          this.#ended(performance.now() - startedAt, child === this.#ending);
        }, 50),
      );
    } catch (error) {
      log.warn("The monitor could not be started: changes by others are found by polling", { reason: String(error) });
    }
  }

  #ended(livedMs: number, killed: boolean): void {
    const lastLine = this.#rest;
    this.#child = undefined;
    this.#rest = "";
    if (this.#closed || this.#paused) return;
    if (killed) {
      // Ended by `pause`, and `resume` came before we heard of it.
      this.#start();
      this.#options.onRestart();
      return;
    }
    const well = livedMs > wellMs || lastLine.includes("EVENT: ");
    this.#pause = well ? shortestPause : Math.min(this.#pause * 2, longestPause);
    this.#options.log.debug(3, "The monitor ended, starting it again", { afterMs: this.#pause, lastLine });
    this.#options.onEnd(lastLine);
    this.#timer = setTimeout(() => {
      this.#start();
      this.#options.onRestart();
    }, this.#pause);
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
