/** Runs one tool: fixed environment, own process group, time limit, bounded output. What came of it is data; it throws only for bugs. */

import { openInput } from "./tool-input.ts";
import { findTool, forgetTool, systemToolDirs } from "./tool-path.ts";

export interface Command {
  readonly tool: string;
  readonly args: readonly string[];
  readonly input?: readonly string[] | undefined;
  /** Milliseconds until SIGKILL; default 30,000. */
  readonly timeoutMs?: number | undefined;
}

export interface ExecOptions {
  /** Where tools are looked for; tests put wrappers here. */
  readonly toolDirs?: readonly string[] | undefined;
  /** Added to the fixed environment (PATH, LC_ALL); nothing of our own environment is passed on. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Gets standard output as it comes, instead of it being collected. */
  readonly onStdout?: ((chunk: Uint8Array) => void) | undefined;
  /** Told of each process that is started: what it does to the kernel is our own doing. */
  readonly onStart?: ((pid: number) => void) | undefined;
  /** Bytes of standard output that may be collected; more ends the tool. Default 256 MiB. */
  readonly maxStdout?: number | undefined;
}

export interface Outcome {
  /** Absolute path; undefined: not found. */
  readonly path: string | undefined;
  /** Undefined when a signal ended it, or it did not start. */
  readonly exitCode: number | undefined;
  /** Name of the signal that ended it. */
  readonly signal: string | undefined;
  /** Why we ended it, or why it did not start. */
  readonly trouble: "missing" | "timeout" | "output" | "start" | undefined;
  readonly stdout: string;
  /** At most the first 64 KB. */
  readonly stderr: string;
  /** What the runtime threw, when `trouble` is `start`. */
  readonly cause?: unknown;
}

const stderrLimit = 64 * 1024;
/** A grandchild that keeps the pipes open (a wrapper script's) must not keep us. */
const drainMs = 2000;

/** Runs the tool to its end. */
export async function execute(command: Command, options: ExecOptions = {}): Promise<Outcome> {
  const dirs = options.toolDirs ?? systemToolDirs;
  keepExitCodes();
  for (let attempt = 0; ; attempt++) {
    const path = findTool(command.tool, dirs);
    if (path === undefined) return failure("missing");
    const input = openInput(command.input);
    try {
      let child: Child;
      try {
        child = start(path, command, options, input.stdin);
      } catch (cause) {
        // The path may have been valid once: a package upgrade moved it. Look again, once.
        forgetTool(command.tool, dirs);
        if (attempt > 0 || !isMissing(cause)) return { ...failure("start"), path, cause };
        continue;
      }
      options.onStart?.(child.pid);
      return await finish(child, path, command, options);
    } finally {
      input.close();
    }
  }
}

function start(path: string, command: Command, options: ExecOptions, stdin: Uint8Array | number | "ignore") {
  return Bun.spawn([path, ...command.args], {
    stdin,
    stdout: "pipe",
    stderr: "pipe",
    cwd: "/",
    env: { PATH: systemToolDirs.join(":"), LC_ALL: "C", ...options.env },
    // An own process group: the time limit ends wrappers' children too, and Ctrl-C on our terminal cuts no transaction.
    detached: true,
  });
}

type Child = ReturnType<typeof start>;

async function finish(child: Child, path: string, command: Command, options: ExecOptions): Promise<Outcome> {
  let trouble: Outcome["trouble"];
  const end = (why: "timeout" | "output") => {
    if (trouble === undefined) killGroup(child.pid);
    trouble ??= why;
  };
  const timer = setTimeout(() => end("timeout"), command.timeoutMs ?? 30_000);
  const out = collect(child.stdout, options.maxStdout ?? 256 * 1024 * 1024, options.onStdout, () => end("output"));
  const err = collect(child.stderr, stderrLimit, undefined, undefined);
  try {
    await child.exited;
    clearTimeout(timer);
    const drained = setTimeout(() => {
      out.stop();
      err.stop();
    }, drainMs);
    const [stdout, stderr] = await Promise.all([out.text, err.text]);
    clearTimeout(drained);
    const signal = child.signalCode === null ? undefined : String(child.signalCode);
    return {
      path,
      exitCode: signal === undefined ? (child.exitCode ?? undefined) : undefined,
      signal,
      trouble,
      stdout,
      stderr,
    };
  } finally {
    clearTimeout(timer);
  }
}

/** Reads a pipe to its end, keeps at most `limit` bytes and drops the rest; `full` is told once. */
function collect(
  stream: ReadableStream<Uint8Array>,
  limit: number,
  sink: ((chunk: Uint8Array) => void) | undefined,
  full: (() => void) | undefined,
): { readonly text: Promise<string>; stop(): void } {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const read = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (sink !== undefined) {
        sink(value);
        continue;
      }
      const room = limit - size;
      size += value.length;
      if (room > 0) chunks.push(value.length > room ? value.subarray(0, room) : value);
      if (size > limit) full?.();
    }
    return new TextDecoder().decode(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
  };
  const text = read();
  // Awaited only after the tool's end: a sink that throws before that must not count as unhandled, nor block the tool.
  text.catch(() => reader.cancel().catch(() => {}));
  return { text, stop: () => void reader.cancel().catch(() => {}) };
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // already gone
  }
}

function failure(trouble: "missing" | "start"): Outcome {
  return { path: undefined, exitCode: undefined, signal: undefined, trouble, stdout: "", stderr: "" };
}

function isMissing(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "ENOENT";
}

let handling = false;

/** A parent that ignores SIGCHLD passes that on, and exit codes are lost (ECHILD, oven-sh/bun#38022): a handler ends it. */
function keepExitCodes(): void {
  if (handling) return;
  handling = true;
  process.on("SIGCHLD", () => {});
}
