/** A network namespace of its own, entered through wrapper scripts that stand in for the tools. */
import { existsSync } from "node:fs";
import { scripts } from "./wrappers.ts";

const tools = ["conntrack", "nft", "ip", "iptables", "ip6tables", "iptables-restore", "nfacct"];
let count = 0;

export interface Namespace {
  readonly name: string;
  /** Pass as `toolDirs`. */
  readonly toolDir: string;
  run(command: readonly string[], input?: string): Promise<string>;
  remove(): Promise<void>;
}

/** Why kernel tests cannot run here; undefined: they can. */
export function missing(...needed: string[]): string | undefined {
  if (process.getuid?.() !== 0) return "not root";
  const absent = ["ip", "nsenter", ...needed].filter((tool) => toolPath(tool) === undefined);
  return absent.length === 0 ? undefined : `not installed: ${absent.join(", ")}`;
}

export async function namespace(): Promise<Namespace> {
  const name = `kph${process.pid}x${++count}`;
  await sh(["ip", "netns", "add", name]);
  const enter = ["nsenter", `--net=/run/netns/${name}`];
  await sh([...enter, "ip", "link", "set", "lo", "up"]);
  const bodies = tools.flatMap((tool) => {
    const path = toolPath(tool);
    return path === undefined ? [] : [[tool, `exec ${enter.join(" ")} ${path} "$@"`] as const];
  });
  return {
    name,
    toolDir: scripts(Object.fromEntries(bodies)),
    run: (command, input) => sh([...enter, ...command], input),
    remove: async () => void (await sh(["ip", "netns", "del", name])),
  };
}

async function sh(command: readonly string[], input?: string): Promise<string> {
  const stdin = input === undefined ? "ignore" : new TextEncoder().encode(input);
  const child = Bun.spawn([...command], { stdin, stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code !== 0) throw new Error(`${command.join(" ")}: exit ${code}: ${err}`);
  return out;
}

function toolPath(tool: string): string | undefined {
  return ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map((dir) => `${dir}/${tool}`).find(existsSync);
}
