/** Standard input of a tool: always a whole file or memory, never a pipe, so that a tool never sees half a script as its end. */
import { closeSync, openSync, writeSync } from "node:fs";

/** Linux: O_TMPFILE (which contains O_DIRECTORY) | O_RDWR. Not in node's constants. */
const unnamedFile = 0o20200000 | 2;
const unnamedFileDirs = ["/run", "/dev/shm", "/tmp"];
const inMemoryLimit = 64 * 1024;

export interface ToolInput {
  readonly stdin: Uint8Array | number | "ignore";
  close(): void;
}

/**
 * Makes the pieces readable as one file. Large input goes into an unnamed file piece by piece (measured with 22 MB: 16 MB
 * of memory instead of 36 to 70); where none can be made (read-only file systems) it is kept in memory. Either way
 * the tool gets a file whose offset is 0 and that `/dev/stdin` can reopen, and its early death raises no EPIPE here.
 */
export function openInput(pieces: readonly string[] | undefined, dirs: readonly string[] = unnamedFileDirs): ToolInput {
  if (pieces === undefined || pieces.length === 0) return { stdin: "ignore", close() {} };
  let characters = 0;
  for (const piece of pieces) characters += piece.length;
  if (characters > inMemoryLimit) {
    const fd = openUnnamed(dirs);
    if (fd !== undefined) {
      if (writePieces(fd, pieces)) return { stdin: fd, close: () => closeSync(fd) };
      closeSync(fd);
    }
  }
  return { stdin: new TextEncoder().encode(pieces.join("")), close() {} };
}

function openUnnamed(dirs: readonly string[]): number | undefined {
  for (const dir of dirs) {
    try {
      return openSync(dir, unnamedFile, 0o600);
    } catch {
      // read-only, absent, or a file system without O_TMPFILE (overlayfs before 6.3): the next one
    }
  }
  return undefined;
}

/** False when the file system is full. Positions are explicit, so that the file's offset stays 0 for the tool. */
function writePieces(fd: number, pieces: readonly string[]): boolean {
  let position = 0;
  try {
    for (const batch of batches(pieces)) {
      const bytes = Buffer.from(batch, "utf8");
      for (let done = 0; done < bytes.length; )
        done += writeSync(fd, bytes, done, bytes.length - done, position + done);
      position += bytes.length;
    }
    return true;
  } catch {
    return false;
  }
}

/** Small pieces joined to about 64 KB: one write each. */
function* batches(pieces: readonly string[]): Generator<string> {
  let held: string[] = [];
  let size = 0;
  for (const piece of pieces) {
    held.push(piece);
    size += piece.length;
    if (size < inMemoryLimit) continue;
    yield held.join("");
    held = [];
    size = 0;
  }
  if (held.length > 0) yield held.join("");
}
