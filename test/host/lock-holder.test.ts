import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { CommandError } from "../../src/host/command-error.ts";
import { holdersOf, lockHolders } from "../../src/host/lock-holder.ts";
import { runSteps } from "../../src/host/run.ts";
import { missing } from "./namespace.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

test("holders by inode, waiters left out", () => {
  const locks = [
    "1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF",
    "1: -> FLOCK  ADVISORY  WRITE 4712 00:19:1234 0 EOF",
    "2: POSIX  ADVISORY  WRITE 99 fd:01:1234 0 EOF",
    "3: FLOCK  ADVISORY  WRITE 100 00:19:12345 0 EOF",
    "4: FLOCK  ADVISORY  WRITE 0 00:19:1234 0 EOF",
    "",
  ].join("\n");
  expect(holdersOf(locks, 1234)).toEqual([4711, 99]);
});

test("no lock file: nobody", () => {
  expect(lockHolders(`${temporaryDir()}/none`)).toEqual([]);
});

/** Holds the lock until stopped; resolves once it has it. */
async function hold(file: string) {
  writeFileSync(file, "");
  const child = Bun.spawn(["flock", "-F", file, "sh", "-c", "echo held; exec sleep 60"], { stdout: "pipe" });
  await child.stdout.getReader().read();
  return child;
}

const reason = missing("iptables-legacy", "flock");
if (reason !== undefined) console.warn(`xtables lock test skipped: ${reason}`);

describe.skipIf(reason !== undefined)("exit code 4", () => {
  async function failure(dir: string, lockFile: string): Promise<CommandError> {
    const step = { kind: "exec", tool: "iptables", args: ["-w", "1", "-L", "-n"], about: "a look" } as const;
    const error = await runSteps([step], { toolDirs: [dir], lockFile, env: { XTABLES_LOCKFILE: lockFile } }).catch(
      (e) => e,
    );
    if (error instanceof CommandError) return error;
    throw new Error(`no CommandError: ${error}`);
  }

  test("of the real tool names who holds the lock", async () => {
    const lockFile = `${temporaryDir()}/xtables.lock`;
    const holder = await hold(lockFile);
    const dir = scripts({ iptables: 'exec unshare -n /usr/sbin/iptables-legacy "$@"' });
    const error = await failure(dir, lockFile);
    holder.kill("SIGKILL");
    expect(error.exitCode).toBe(4);
    expect(error.lockHolders.map(({ comm }) => comm)).toEqual(["sleep"]);
    expect(error.message).toContain(`; the xtables lock is held by process ${error.lockHolders[0]?.pid} (sleep)`);
    expect(error.message).toContain("Another app is currently holding the xtables lock");
  });

  test("for another reason blames nobody", async () => {
    const lockFile = `${temporaryDir()}/xtables.lock`;
    const holder = await hold(lockFile);
    const error = await failure(
      scripts({ iptables: "echo 'iptables: Memory allocation problem.' >&2; exit 4" }),
      lockFile,
    );
    holder.kill("SIGKILL");
    expect(error.lockHolders).toEqual([]);
  });
});
