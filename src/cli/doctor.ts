/** `kube-proxy doctor`: whether this host can run a mode, and what stands in its way, each with the command that changes it. */
import { makeContexts, nodeIdentity, ruleGates } from "../app/contexts.ts";
import type { Config } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import { localAddresses } from "../host/addresses.ts";
import { hostFacts } from "../host/facts.ts";
import type { NodeInfo } from "../model/node.ts";
import { commandConfig } from "./command-config.ts";
import type { CommandModule } from "./commands.ts";
import { type Check, checksText, warn } from "./doctor/check.ts";
import { checkCluster, checkManifests } from "./doctor/cluster.ts";
import { checkKernel, checkPrivileges, checkSysctls } from "./doctor/kernel.ts";
import { checkLeftovers } from "./doctor/leftovers.ts";
import { checkTools } from "./doctor/tools.ts";
import { outputFlag, outputOf } from "./output-flag.ts";
import { listFlag, strayWords, textFlag } from "./parse.ts";
import { situationFlags } from "./situation-flags.ts";
import { commandLog, printable } from "./trouble.ts";

const left = new Set(["family", "node-ip"]);
const table = [...situationFlags.filter(({ name }) => !left.has(name)), outputFlag];

export const command: CommandModule = {
  flags: table,
  usage: "[flags]",
  about:
    "Looks whether this host can run a mode: tools and their versions, what the kernel can do, rights, sysctls, the connection table, " +
    "rules that other modes and the other iptables variant left, the API server, what it allows, this Node's name, the clock. " +
    "Every finding says what it means and which command changes it. Nothing is changed. " +
    "Exit codes: 0 the mode can run (warnings may be printed), 1 it cannot, 2 the question was wrong.",
  trouble: 2,
  run: async (parsed, output) => {
    const faults = strayWords(parsed.words);
    if (faults.length > 0) throw new ConfigError(faults);
    const form = outputOf(parsed);
    const { config, warnings } = commandConfig(table, parsed);
    const log = commandLog("doctor", output);
    const manifests = listFlag(parsed, "manifests");
    const cluster =
      manifests.length > 0
        ? checkManifests(manifests, config, log)
        : await checkCluster(config, textFlag(parsed, "master"), log);
    const checks: readonly Check[] = [
      ...warnings.map((warning) => warn("configuration", warning, "", "")),
      ...(await checkHost(config, cluster.node)),
      ...cluster.checks,
    ];
    const runs = checks.every(({ verdict }) => verdict !== "fail");
    output.out(form === "json" ? jsonText(config, runs, checks) : plainText(config, runs, checks));
    return runs ? 0 : 1;
  },
};

// --- internal ---

async function checkHost(config: Config, node: NodeInfo | undefined): Promise<readonly Check[]> {
  const facts = await hostFacts({ wantNfacct: false });
  const { list, warnings } = makeContexts({
    config,
    nodeName: node?.name ?? "",
    node,
    identity: nodeIdentity(node, config.bindAddress),
    supported: ["IPv4", "IPv6"],
    facts,
    localAddresses: (await localAddresses()).map(({ ip }) => ip),
    gates: ruleGates(config),
  });
  return [
    ...warnings.map((warning) => warn("configuration", warning, "", "")),
    ...(await checkTools(config.mode)),
    ...checkPrivileges(),
    ...(await checkKernel(list)),
    ...checkSysctls(list, config),
    ...(await checkLeftovers(config.mode, facts.iptables)),
  ];
}

function plainText(config: Config, runs: boolean, checks: readonly Check[]): string {
  const count = (verdict: Check["verdict"]): number => checks.filter((check) => check.verdict === verdict).length;
  const sum = `${count("ok")} ok, ${count("warn")} warnings, ${count("fail")} failures`;
  return `${checksText(checks)}${config.mode} mode ${runs ? "can run" : "CANNOT run"} on this host: ${sum}\n`;
}

function jsonText(config: Config, runs: boolean, checks: readonly Check[]): string {
  const clean = checks.map(({ topic, verdict, found, meaning, fix }) => ({
    topic,
    verdict,
    found: printable(found),
    meaning: printable(meaning),
    fix: printable(fix),
  }));
  return `${JSON.stringify({ mode: config.mode, runs, checks: clean }, undefined, 2)}\n`;
}
