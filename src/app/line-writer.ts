/** Whole lines to a file descriptor, synchronously; a pipe that is full for long loses lines, never the proxy's time. */
import { writeSync } from "node:fs";

/** Writes some bytes and returns how many; throws with a code (`EAGAIN`, `EPIPE`). */
export type WriteBytes = (fd: number, bytes: Uint8Array) => number;

/** How often and how long (ms) to wait for a full pipe that is set not to block. */
const attempts = 20;
const pauseMs = 5;

export class LineWriter {
  readonly #fd: number;
  readonly #write: WriteBytes;
  readonly #pause: (ms: number) => void;
  /** Rest of a line whose beginning is already out. */
  #rest: Uint8Array = new Uint8Array(0);
  #lost = 0;

  constructor(fd: number, write: WriteBytes = writeSync, pause: (ms: number) => void = sleep) {
    this.#fd = fd;
    this.#write = write;
    this.#pause = pause;
  }

  /** Lines lost so far that no line has told of yet. */
  get lost(): number {
    return this.#lost;
  }

  /** `line` without its line end. Lines are never mixed: the rest of the last one goes out first. */
  write(line: string): void {
    const told = this.#lost > 0 ? `(${this.#lost} log lines were lost: their reader was too slow)\n` : "";
    if (!this.#drain()) {
      this.#lost++;
      return;
    }
    this.#rest = new TextEncoder().encode(`${told}${line}\n`);
    const whole = this.#rest.length;
    this.#drain();
    if (this.#rest.length === whole) {
      this.#rest = new Uint8Array(0);
      this.#lost++;
    } else this.#lost = 0;
  }

  /** True when nothing is left to write. */
  #drain(): boolean {
    for (let attempt = 0; this.#rest.length > 0 && attempt < attempts; ) {
      try {
        this.#rest = this.#rest.subarray(this.#write(this.#fd, this.#rest));
      } catch (error) {
        // EPIPE and the like: nobody reads any more, and there is nobody to tell.
        if ((error as { code?: string }).code !== "EAGAIN") this.#rest = new Uint8Array(0);
        else this.#pause(pauseMs);
        attempt++;
      }
    }
    return this.#rest.length === 0;
  }
}

function sleep(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
