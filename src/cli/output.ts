/** The program's own output: whole texts to the standard streams, nothing lost at exit; and the file of --write-config-to. */
import { writeFileSync, writeSync } from "node:fs";
import { ConfigError, fault } from "../config/config-error.ts";
import { type Command, commands, type Output } from "./commands.ts";
import { flags } from "./flags.ts";
import { helpText } from "./help.ts";

/** process.stdout.write would lose what is buffered at exit; these calls do not return before all is out. */
export function standardOutput(): Output {
  return {
    out: (text) => writeAll(1, text),
    err: (text) => writeAll(2, text),
    // A serial console has no size: 0 columns.
    width: process.stdout.isTTY ? process.stdout.columns || 80 : 80,
  };
}

/** The text of `kube-proxy --help`. */
export function programHelp(width: number, known: readonly Command[] = commands): string {
  return helpText(
    {
      about: "Keeps this node's kernel rules in step with the Services and EndpointSlices of a Kubernetes cluster.",
      usage: ["[flags]", ...(known.length > 0 ? ["COMMAND [flags]   (COMMAND --help tells more)"] : [])],
      commands: known,
      flags,
    },
    width,
  );
}

/** Throws ConfigError when the file cannot be written. */
export function writeConfigFile(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    const { message } = error as Error;
    throw new ConfigError([fault("", "--write-config-to", path, `cannot be written: ${message}`)]);
  }
}

/** A pipe that does not block and is full is waited for; one that nobody reads any more ends the output. */
function writeAll(fd: number, text: string): void {
  for (let rest = new TextEncoder().encode(text); rest.length > 0; ) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if ((error as { code?: string }).code !== "EAGAIN") return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
