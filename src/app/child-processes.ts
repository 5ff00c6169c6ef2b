/** Which processes are tools that we started, so that the monitor's events about them are known as our own doing. */
import { statSync } from "node:fs";
import type { Step } from "../model/step.ts";

/** Inode of the machine's own process namespace (kernel constant PROC_PID_INIT_INO). */
const initialNamespace = 0xeffffffc;
const kept = 512;
/** Tools that change nftables objects, as the kernel names their processes (15 characters). */
const toolNames = /^(nft|ip6?tables|xtables|unshare)/;
/** The monitor tells of a transaction a little after the tool has ended. */
const graceMs = 500;

export interface ChildProcessesOptions {
  /** Default: whether we are in the machine's own process namespace. */
  readonly sameNamespace?: boolean;
  /** Milliseconds, monotonic. */
  readonly now?: () => number;
}

export class ChildProcesses {
  readonly #pids: number[] = [];
  readonly #sameNamespace: boolean;
  readonly #now: () => number;
  #writing = 0;
  #lastWrite = Number.NEGATIVE_INFINITY;

  constructor(options: ChildProcessesOptions = {}) {
    this.#sameNamespace = options.sameNamespace ?? inInitialNamespace();
    this.#now = options.now ?? (() => performance.now());
  }

  add(pid: number): void {
    this.#pids.push(pid);
    if (this.#pids.length > kept) this.#pids.splice(0, kept / 2);
  }

  /** Runs the steps; while they write, changes may be ours. */
  async during<T>(steps: readonly Step[], work: () => Promise<T>): Promise<T> {
    // What has no input only reads (`nft list`, `iptables-save`), or does so little that polling sees the rest.
    const writes = steps.some((step) => step.kind === "exec" && step.input !== undefined);
    if (!writes) return work();
    this.#writing++;
    try {
      return await work();
    } finally {
      this.#writing--;
      this.#lastWrite = this.#now();
    }
  }

  /** We are writing, or have just been. */
  get writing(): boolean {
    return this.#writing > 0 || this.#now() - this.#lastWrite < graceMs;
  }

  /**
   * In a process namespace of our own (a container without hostPID) the kernel's numbers are not ours: then any such
   * tool counts as ours while we are writing; what others do in just that moment is found by polling.
   */
  includes(pid: number, name: string): boolean {
    if (this.#sameNamespace) return this.#pids.includes(pid);
    return toolNames.test(name) && this.writing;
  }
}

// --- internal ---

function inInitialNamespace(): boolean {
  try {
    return statSync("/proc/self/ns/pid").ino === initialNamespace;
  } catch {
    return true;
  }
}
