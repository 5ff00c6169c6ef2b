/** Follows the configuration file: another meaning ends the process for its supervisor, an invalid one is only told. */
import { readFileSync } from "node:fs";
import { load, type RunOptions } from "../cli/load.ts";
import type { Config } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import { sameMeaning } from "../config/print.ts";
import type { Log } from "../model/log.ts";
import { watchConfig } from "./config-watch.ts";
import { Exit } from "./exit.ts";

export interface ConfigChanges {
  readonly config: Config;
  readonly options: RunOptions;
  readonly log: Log;
  /** The command line that gave `config`. */
  readonly argv: readonly string[];
}

/**
 * Returns how to stop watching. Without a file there is nothing to watch. SIGHUP looks at once (credentials are read
 * anew for every connection anyway).
 */
export function watchConfigFile(changes: ConfigChanges, exit: (why: Exit) => void): () => void {
  const path = changes.options.configFile;
  const { log } = changes;
  const onHangUp = (): void => {
    log.info("SIGHUP: reading the configuration again", { file: path });
    const text = path === "" ? undefined : readText(path);
    if (text !== undefined) void judge(changes, text, exit);
  };
  process.on("SIGHUP", onHangUp);
  const stop = path === "" ? () => {} : follow(changes, exit);
  return () => {
    process.off("SIGHUP", onHangUp);
    stop();
  };
}

// --- internal ---

function follow(changes: ConfigChanges, exit: (why: Exit) => void): () => void {
  const { log, options } = changes;
  const path = options.configFile;
  return watchConfig({
    path,
    text: options.configText,
    changed: (text) => {
      if (text === undefined) log.error("The configuration file is gone: running on with what it said", { file: path });
      else void judge(changes, text, exit);
    },
    failed: (problem) =>
      log.error("The configuration file cannot be read: running on with what it said", { file: path, problem }),
  });
}

async function judge(
  { config, options, log, argv }: ConfigChanges,
  text: string,
  exit: (why: Exit) => void,
): Promise<void> {
  const path = options.configFile;
  try {
    const loaded = await load(argv, () => text);
    if (loaded.kind !== "run" && loaded.kind !== "cleanup") return;
    if (sameMeaning(loaded.config, config))
      return log.info("The configuration file changed, but not its meaning", { file: path });
    exit(new Exit(0, `the configuration file ${path} changed; exiting to start anew with it (rules stay)`));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const line of error.lines())
      log.error("The changed configuration file is invalid: running on with the old one", { fault: line });
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
