/** Tells when the text of one file changes, however it is replaced: rewritten, renamed over, or a ConfigMap's symlink swapped. */
import { type FSWatcher, readFileSync, realpathSync, statSync, watch } from "node:fs";
import { dirname, resolve } from "node:path";

export interface ConfigWatchOptions {
  readonly path: string;
  /** What the caller read at start; undefined: the file was not there. */
  readonly text: string | undefined;
  /** Called with new text, or undefined when the file is gone. Not called when the text is what it was. */
  readonly changed: (text: string | undefined) => void;
  /** The file is there but cannot be read. One line. */
  readonly failed?: (problem: string) => void;
  /** How long the folder must be quiet: writers truncate first, and symlink swaps come as several events. Default 250. */
  readonly quietMs?: number;
  /** Look without an event so often, for file systems that send none. Default 60,000. */
  readonly pollMs?: number;
}

/**
 * Watch until the returned function is called. Folders are watched, not the file (its inode changes when it is renamed
 * over): the one of the path as given and the one it resolves to, chosen anew after each change.
 */
export function watchConfig(options: ConfigWatchOptions): () => void {
  const path = resolve(options.path);
  const watchers = new Map<string, { readonly watcher: FSWatcher; readonly inode: bigint | undefined }>();
  let known = options.text;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastProblem: string | undefined;

  function wake(): void {
    clearTimeout(timer);
    timer = setTimeout(look, options.quietMs ?? 250);
  }

  function watchFolders(): void {
    const wanted = foldersOf(path);
    for (const [folder, { watcher, inode }] of watchers) {
      // A folder made anew under the same name is another one to the kernel.
      if (wanted.has(folder) && inodeOf(folder) === inode) continue;
      watcher.close();
      watchers.delete(folder);
    }
    for (const folder of wanted) if (!watchers.has(folder)) watchFolder(folder);
  }

  function watchFolder(folder: string): void {
    const forget = () => {
      watchers.get(folder)?.watcher.close();
      watchers.delete(folder);
    };
    try {
      const watcher = watch(folder, { persistent: false }, wake);
      watcher.on("error", forget);
      watchers.set(folder, { watcher, inode: inodeOf(folder) });
    } catch {
      // The folder is gone; the poll finds it when it is back.
    }
  }

  function look(): void {
    watchFolders();
    const found = readText(path);
    if (found.problem !== undefined) {
      if (found.problem !== lastProblem) options.failed?.(found.problem);
      lastProblem = found.problem;
      return;
    }
    lastProblem = undefined;
    if (found.text === known) return;
    known = found.text;
    options.changed(found.text);
  }

  const poll = setInterval(look, options.pollMs ?? 60_000);
  watchFolders();
  // A change between the caller's reading and now has no event.
  wake();
  return () => {
    clearTimeout(timer);
    clearInterval(poll);
    for (const { watcher } of watchers.values()) watcher.close();
    watchers.clear();
  };
}

function inodeOf(folder: string): bigint | undefined {
  return statSync(folder, { bigint: true, throwIfNoEntry: false })?.ino;
}

function foldersOf(path: string): ReadonlySet<string> {
  const folders = new Set([dirname(path)]);
  try {
    folders.add(dirname(realpathSync(path)));
  } catch {
    // Absent or a dangling link: only the folder of its name can tell.
  }
  return folders;
}

function readText(path: string): { text: string | undefined; problem?: string } {
  try {
    return { text: readFileSync(path, "utf8") };
  } catch (cause) {
    const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
    if (code === "ENOENT") return { text: undefined };
    return {
      text: undefined,
      problem: `cannot read ${path}: ${cause instanceof Error ? cause.message : String(cause)}`,
    };
  }
}
