/**
 * Copies a Bun runtime with the environment variables that turn a compiled program into something else made unreachable:
 * `bun scripts/harden-runtime.ts RUNTIME COPY`. The first byte of each name becomes `=`, which no variable's name has.
 * Fails when a name is not there exactly once, so that a new Bun version is looked at before it is shipped.
 */
import { chmodSync, writeFileSync } from "node:fs";

/** What each does to a compiled program that runs as root. */
export const disarmed: Readonly<Record<string, string>> = {
  BUN_BE_BUN: "it becomes the bun command line: -e CODE, install, …",
  BUN_OPTIONS: "more options for the runtime: --preload FILE runs a file, --env-file reads one, --cpu-prof writes one",
  BUN_INSPECT: "a debugger listens",
  BUN_INSPECT_CONNECT_TO: "a debugger is connected to",
  BUN_INSPECT_PRELOAD: "a file is run before the program",
  BUN_CONFIG_VERBOSE_FETCH: "requests are printed, bearer tokens in clear",
  NODE_TLS_REJECT_UNAUTHORIZED: "certificates are not verified",
  NODE_CHANNEL_FD: "messages are taken from a file descriptor",
  BUN_BYTECODE_ORDER_OUT: "a file is written at the end",
  BUN_BYTECODE_ORDER_NAMES_OUT: "a file is written at the end",
  BUN_BYTECODE_DIGEST_OUT: "a file is written at the end",
  BUN_TRACE: "a file is written",
  BUN_WATCHER_TRACE: "a file is written",
  BUN_TMPDIR: "where the runtime would put files",
  BUN_RUNTIME_TRANSPILER_CACHE_PATH: "where the runtime would put files",
};

/** Overwrites in place; returns the names that are not there exactly once. */
export function disarm(runtime: Uint8Array, names: readonly string[]): readonly string[] {
  const bytes = Buffer.from(runtime.buffer, runtime.byteOffset, runtime.byteLength);
  return names.filter((name) => {
    const pattern = Buffer.from(`\0${name}\0`);
    const at = bytes.indexOf(pattern);
    if (at < 0 || bytes.indexOf(pattern, at + 1) >= 0) return true;
    bytes[at + 1] = 0x3d;
    return false;
  });
}

if (import.meta.main) {
  const [from, to] = process.argv.slice(2);
  if (from === undefined || to === undefined) {
    console.error("usage: bun scripts/harden-runtime.ts RUNTIME COPY");
    process.exit(1);
  }
  const runtime = await Bun.file(from).bytes();
  const odd = disarm(runtime, Object.keys(disarmed));
  if (odd.length > 0) {
    console.error(
      `${from}: not found exactly once: ${odd.join(", ")}. Look at what this version of Bun does with them.`,
    );
    process.exit(1);
  }
  writeFileSync(to, runtime);
  chmodSync(to, 0o755);
}
