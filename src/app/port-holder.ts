/** Which process listens on a TCP port, from /proc: the kernel's socket table names an inode, a descriptor of the process too. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** `nginx (pid 4711)`, or undefined when it cannot be told (gone, another user's, or in another pid namespace). */
export function portHolder(port: number, proc = "/proc"): string | undefined {
  const inodes = new Set(["tcp", "tcp6"].flatMap((table) => listeningInodes(read(`${proc}/net/${table}`), port)));
  if (inodes.size === 0) return undefined;
  for (const pid of list(proc)) {
    if (!/^\d+$/.test(pid)) continue;
    for (const fd of list(`${proc}/${pid}/fd`)) {
      if (!inodes.has(socketInode(`${proc}/${pid}/fd/${fd}`))) continue;
      return `${read(`${proc}/${pid}/comm`).trim() || "unknown"} (pid ${pid})`;
    }
  }
  return undefined;
}

const listening = "0A";

/** Inodes of listening sockets on the port, from the text of /proc/net/tcp or tcp6. */
export function listeningInodes(table: string, port: number): readonly string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  return table
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[1]?.endsWith(suffix) && fields[3] === listening)
    .map((fields) => fields[9] ?? "")
    .filter((inode) => inode !== "" && inode !== "0");
}

function socketInode(path: string): string {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(path))?.[1] ?? "";
  } catch {
    return "";
  }
}

function list(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
