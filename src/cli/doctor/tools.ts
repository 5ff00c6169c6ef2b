/** Which tools a mode needs, whether they are there, and in which version. */
import { runSteps } from "../../host/run.ts";
import { debianPackage } from "../../host/tool-path.ts";
import type { ProxyMode } from "../../model/context.ts";
import type { ExecStep } from "../../model/step.ts";
import { type Check, fail, ok, warn } from "./check.ts";

interface Tool {
  readonly name: string;
  readonly args: readonly string[];
  /** Undefined: the mode cannot run without it. */
  readonly without?: string;
}

const iptables: readonly Tool[] = ["iptables", "ip6tables", "iptables-save", "iptables-restore"].map((name) => ({
  name,
  args: ["--version"],
}));
const conntrack: Tool = {
  name: "conntrack",
  args: ["--version"],
  without: "UDP clients keep talking to endpoints that are gone until their flows time out",
};
const modprobe: Tool = { name: "modprobe", args: ["--version"], without: "missing kernel modules are not loaded" };

const tools: Readonly<Record<ProxyMode, readonly Tool[]>> = {
  nftables: [{ name: "nft", args: ["--version"] }, conntrack],
  iptables: [
    ...iptables,
    conntrack,
    { name: "nfacct", args: ["version"], without: "dropped and localhost packets are not counted (two metrics)" },
  ],
  ipvs: [
    { name: "ipvsadm", args: ["--version"] },
    { name: "ipset", args: ["--version"] },
    { name: "ip", args: ["-V"] },
    ...iptables,
    conntrack,
    modprobe,
  ],
};

export async function checkTools(mode: ProxyMode): Promise<readonly Check[]> {
  const checks: Check[] = [];
  for (const tool of tools[mode]) checks.push(await checkTool(tool, mode));
  return checks;
}

// --- internal ---

async function checkTool({ name, args, without }: Tool, mode: ProxyMode): Promise<Check> {
  const step: ExecStep = { kind: "exec", tool: name, args, mayFail: true, timeoutMs: 10_000, about: "version" };
  const [result] = await runSteps([step]);
  if (result?.exitCode === -1) {
    const fix = `apt-get install ${debianPackage(name) ?? name}`;
    const found = `${name} is not installed`;
    return without === undefined
      ? fail("tools", found, `${mode} mode cannot run`, fix)
      : warn("tools", found, without, fix);
  }
  const said = `${result?.stdout ?? ""}\n${result?.stderr ?? ""}`.split("\n").map((line) => line.trim());
  // ipvsadm tries to load its module before it says its version.
  const version = said.find((line) => /\d+\.\d+|version/.test(line) && !line.startsWith("modprobe:"));
  if (version === undefined) return ok("tools", `${name} is installed`);
  return ok("tools", version.toLowerCase().includes(name) ? version : `${name}: ${version}`);
}
