/** Where the tools are: absolute paths from a fixed list of directories, and the Debian package that brings a missing one. */
import { accessSync, constants, statSync } from "node:fs";

/** Never from the environment: a root daemon must not run whatever PATH it was started with. */
export const systemToolDirs: readonly string[] = [
  "/usr/sbin",
  "/usr/bin",
  "/sbin",
  "/bin",
  "/usr/local/sbin",
  "/usr/local/bin",
];

const found = new Map<string, string>();

/** The absolute path of a tool, looked up once per process; undefined when no directory has it as an executable file. */
export function findTool(tool: string, dirs: readonly string[] = systemToolDirs): string | undefined {
  if (!/^[a-z0-9][a-z0-9._-]*$/i.test(tool)) return undefined;
  const key = `${dirs.join(":")} ${tool}`;
  const known = found.get(key);
  if (known !== undefined) return known;
  for (const dir of dirs) {
    const path = `${dir}/${tool}`;
    if (!isExecutable(path)) continue;
    found.set(key, path);
    return path;
  }
  return undefined;
}

/** Forget a path that turned out to be gone (the package was replaced while we run). */
export function forgetTool(tool: string, dirs: readonly string[] = systemToolDirs): void {
  found.delete(`${dirs.join(":")} ${tool}`);
}

/** The Debian package that contains a tool; undefined for tools the proxy does not know. */
export function debianPackage(tool: string): string | undefined {
  if (/^(ip6?|eb|arp|x)tables(-|$)/.test(tool)) return "iptables";
  return packages[tool];
}

const packages: Readonly<Record<string, string>> = {
  nft: "nftables",
  ipset: "ipset",
  ipvsadm: "ipvsadm",
  conntrack: "conntrack",
  ip: "iproute2",
  modprobe: "kmod",
  lsmod: "kmod",
  nfacct: "nfacct",
};

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
