/** Who holds the xtables lock: `/proc/locks` names the process by the lock file's inode. */
import { readFileSync, readlinkSync, statSync } from "node:fs";

export const xtablesLock = "/run/xtables.lock";

export interface LockHolder {
  readonly pid: number;
  /** Name of the program; empty when it is gone already. */
  readonly comm: string;
}

/** Processes that hold (not wait for) a lock on the file, ourselves left out. */
export function lockHolders(path: string = xtablesLock, proc = "/proc"): readonly LockHolder[] {
  try {
    const { ino } = statSync(path);
    const pids = holdersOf(readFileSync(`${proc}/locks`, "utf8"), ino);
    return pids.filter((pid) => pid !== process.pid).map((pid) => ({ pid, comm: commOf(pid, proc) }));
  } catch {
    return [];
  }
}

/**
 * Pids of lines such as `1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF`; lines with `->` only wait. Compared by inode
 * alone: the device number of some file systems (btrfs, overlayfs) is not the one that stat tells.
 */
export function holdersOf(locks: string, inode: number): readonly number[] {
  const pids: number[] = [];
  for (const line of locks.split("\n")) {
    const fields = line.trim().split(/\s+/);
    if (fields[1] === "->" || fields.length < 6) continue;
    const pid = Number(fields[4]);
    if (Number(fields[5]?.split(":")[2]) === inode && pid > 0 && !pids.includes(pid)) pids.push(pid);
  }
  return pids;
}

function commOf(pid: number, proc: string): string {
  try {
    return readFileSync(`${proc}/${pid}/comm`, "utf8").trim();
  } catch {
    try {
      return readlinkSync(`${proc}/${pid}/exe`);
    } catch {
      return "";
    }
  }
}
