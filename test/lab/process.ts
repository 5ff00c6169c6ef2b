/** A process inside a namespace of the lab, with its output kept in a file and its end awaited. */
import { closeSync, openSync, readFileSync } from "node:fs";

export interface Started {
  readonly pid: number;
  /** Exit code once it ended. */
  exitCode(): number | null;
  /** What it printed so far, both streams. */
  output(): string;
  /** Asks it to end, kills it when it does not within five seconds. */
  stop(): Promise<void>;
}

/** Starts `argv` in the namespace; `mounts` are `mount` arguments run first, seen by it alone. */
export function startIn(
  namespace: string,
  argv: readonly string[],
  logFile: string,
  mounts: readonly string[] = [],
): Started {
  const script = [...mounts.map((mount) => `mount ${mount} || exit 125`), 'exec setpriv --pdeathsig KILL "$@"'].join(
    "\n",
  );
  const log = openSync(logFile, "w");
  // `ip netns exec` gives it a mount namespace of its own and then becomes the program: the pid is the program's.
  // It dies with us, however we die.
  const child = Bun.spawn(["ip", "netns", "exec", namespace, "sh", "-c", script, "sh", ...argv], {
    stdin: "ignore",
    stdout: log,
    stderr: log,
  });
  closeSync(log);
  return {
    pid: child.pid,
    exitCode: () => child.exitCode,
    output: () => readFileSync(logFile, "utf8"),
    stop: async () => {
      child.kill("SIGTERM");
      const ended = await Promise.race([child.exited, Bun.sleep(5000).then(() => "late" as const)]);
      if (ended === "late") {
        child.kill("SIGKILL");
        await child.exited;
      }
    },
  };
}
