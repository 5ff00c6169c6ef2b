/** Runs the proxy as a process: logger, signals, exit code and last line. */
import type { RunOptions } from "../cli/load.ts";
import { standardOutput } from "../cli/output.ts";
import type { Config } from "../config/config.ts";
import type { Warning } from "../config/config-error.ts";
import { KubeconfigError } from "../kube/cluster-access.ts";
import { cleanupCommand } from "./cleanup-command.ts";
import { Exit } from "./exit.ts";
import { createLog, logOptions, type RootLog } from "./log.ts";
import { runProxy } from "./run.ts";
import { setNotifyEnvironment } from "./supervisor.ts";
import { takeNotifyEnvironment } from "./systemd-notify.ts";

export interface ServeInputs {
  readonly kind: "run" | "cleanup";
  readonly argv: readonly string[];
  readonly options: RunOptions;
  readonly config: Config;
  readonly warnings: readonly Warning[];
}

/** Gives the exit code. */
export async function serve(inputs: ServeInputs): Promise<number> {
  const log = createLog(logOptions(inputs.config.logging));
  setNotifyEnvironment(takeNotifyEnvironment(process.env, process.pid));
  const stop = new AbortController();
  handleSignals(stop, log);
  process.on("unhandledRejection", (reason) => {
    log.error("Unexpected error in the background, going on", {
      error: reason instanceof Error ? (reason.stack ?? reason.message) : String(reason),
    });
  });
  try {
    if (inputs.kind === "cleanup")
      return await cleanupCommand(inputs.config, log, (line) => standardOutput().out(`${line}\n`));
    await runProxy(inputs, log, stop.signal);
    if (!inputs.options.initOnly) log.info("Stopped; rules stay in place");
    return 0;
  } catch (error) {
    // The wait for a Node or a list ends with the abort's own error.
    if (stop.signal.aborted) return 0;
    if (error instanceof Exit) {
      if (error.code === 0) log.info(error.message);
      else log.error(error.message);
      return error.code;
    }
    if (error instanceof KubeconfigError) {
      log.error(error.message);
      return 1;
    }
    throw error;
  }
}

// --- internal ---

function handleSignals(stop: AbortController, log: RootLog): void {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    process.on(signal, () => {
      log.info("Signal received, stopping", { signal });
      stop.abort();
    });
  }
  // Bun's default for SIGUSR1 kills the process; a stray signal must not.
  process.on("SIGUSR1", () => {});
  process.on("SIGPIPE", () => {});
  // Until the proxy runs and reads its configuration again on it (config-changes.ts).
  process.on("SIGHUP", () => {});
}
