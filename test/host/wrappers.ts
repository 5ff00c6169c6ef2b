/** Scripts that stand in for tools, in a directory of their own that is removed with the process. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";

const made: string[] = [];
process.on("exit", () => {
  for (const dir of made) rmSync(dir, { recursive: true, force: true });
});

/** A directory with the given shell scripts; `dir` is to be passed as `toolDirs`. */
export function scripts(bodies: Readonly<Record<string, string>>): string {
  const dir = mkdtempSync(`${tmpdir()}/kp-tools-`);
  made.push(dir);
  for (const [name, body] of Object.entries(bodies)) {
    writeFileSync(`${dir}/${name}`, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  }
  return dir;
}

export function temporaryDir(): string {
  const dir = mkdtempSync(`${tmpdir()}/kp-host-`);
  made.push(dir);
  return dir;
}
