/** What is being done, on one line of a terminal that is overwritten and gone at the end; nothing where nobody looks. */
import type { Output } from "./commands.ts";

export interface Progress {
  readonly say: (text: string) => void;
  readonly done: () => void;
}

const clearLine = "\r\x1b[K";

export function showProgress(output: Output, terminal = process.stderr.isTTY === true): Progress {
  if (!terminal) return { say: () => {}, done: () => {} };
  return {
    say: (text) => output.err(`${clearLine}${text.slice(0, Math.max(20, output.width - 1))}`),
    done: () => output.err(clearLine),
  };
}
