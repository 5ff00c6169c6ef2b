/** Cuts a byte stream into lines: indexOf on the raw bytes is the fastest way in Bun, and nothing is copied twice. */

/** A line longer than this is no Kubernetes object (etcd takes 1.5 MB, requests 3 MB). */
const longest = 32 * 1024 * 1024;

export class LineSplitter {
  #held: Uint8Array[] = [];
  #heldBytes = 0;

  /** The complete lines that this chunk ends, blank ones left out. Throws RangeError when a line grows without end. */
  push(chunk: Uint8Array): readonly string[] {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const lines: string[] = [];
    let start = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, start)) {
      const line = this.#take(bytes.subarray(start, end));
      if (line.length > 1 || line.trim() !== "") lines.push(line);
      start = end + 1;
    }
    if (start < bytes.length) this.#hold(bytes.subarray(start));
    return lines;
  }

  /** Bytes of a line that has not ended. */
  get pending(): number {
    return this.#heldBytes;
  }

  #hold(part: Uint8Array): void {
    this.#held.push(part);
    this.#heldBytes += part.length;
    if (this.#heldBytes > longest) throw new RangeError(`a line of more than ${longest} bytes`);
  }

  #take(part: Buffer): string {
    if (this.#heldBytes === 0) return part.toString();
    const whole = Buffer.concat([...this.#held, part]);
    this.#held = [];
    this.#heldBytes = 0;
    return whole.toString();
  }
}
