/** Which processes are tools that we started, so that the monitor's events about them are known as our own doing. */
import { statSync } from "node:fs";

/** Inode of the machine's own process namespace (kernel constant PROC_PID_INIT_INO). */
const initialNamespace = 0xeffffffc;
const kept = 512;
/** Tools that change nftables objects, as the kernel names their processes (15 characters). */
const toolNames = /^(nft|ip6?tables|xtables|unshare)/;
/** An event may arrive that long after its process was started, in milliseconds. */
const windowMs = 60_000;

export class ChildProcesses {
  readonly #pids: number[] = [];
  readonly #sameNamespace: boolean;
  #lastStart = Number.NEGATIVE_INFINITY;

  constructor() {
    this.#sameNamespace = inInitialNamespace();
  }

  add(pid: number): void {
    this.#pids.push(pid);
    if (this.#pids.length > kept) this.#pids.splice(0, kept / 2);
    this.#lastStart = performance.now();
  }

  /**
   * In a process namespace of our own (a container without hostPID) the kernel's numbers are not ours: then any such
   * tool counts as ours while we have just been using one; what is missed is found by polling.
   */
  includes(pid: number, name: string): boolean {
    if (this.#pids.includes(pid)) return true;
    return !this.#sameNamespace && toolNames.test(name) && performance.now() - this.#lastStart < windowMs;
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
