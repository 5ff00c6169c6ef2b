/** `--cleanup`: needs no API server, Node or kubeconfig; prints what it removed and ends with 1 only if something remains. */
import { readFileSync } from "node:fs";
import type { Config } from "../config/config.ts";
import { iptablesVersion } from "../host/facts.ts";
import { capabilities } from "../host/process.ts";
import { runSteps } from "../host/run.ts";
import { findTool } from "../host/tool-path.ts";
import type { Context, HostFacts } from "../model/context.ts";
import type { Family } from "../model/family.ts";
import type { Log } from "../model/log.ts";
import { cleanUp, describeRemoved } from "./cleanup.ts";
import { hostTools, type Tools } from "./cleanup-variant.ts";
import { makeContexts, nodeIdentity } from "./contexts.ts";

/** Gives the exit code. `print` gets whole lines for standard output. */
export async function cleanupCommand(config: Config, log: Log, print: (line: string) => void): Promise<number> {
  if (capabilities()?.has("net_admin") === false) {
    log.error("--cleanup must run as root (it needs the capability NET_ADMIN)");
    return 1;
  }
  const { removed, remains } = await cleanUp({
    contexts: cleanupContexts(config),
    tools: await toolsOfHost(),
    present: (tool) => findTool(tool) !== undefined,
    run: (steps) => runSteps(steps, { log }),
    keep: undefined,
  });
  for (const line of describeRemoved(removed)) print(`removed ${line}`);
  if (remains.length === 0) print(removed.size === 0 ? "nothing to remove" : "nothing of kube-proxy is left");
  for (const line of remains) log.error(`Still there: ${line}`);
  return remains.length === 0 ? 0 : 1;
}

/** Which variants of iptables there are, found out anew each time. */
export async function toolsOfHost(): Promise<readonly Tools[]> {
  const version = await iptablesVersion({});
  return hostTools(version?.variant, (tool) => findTool(tool) !== undefined, legacyTables);
}

// --- internal ---

/** Read each time it is asked: tables appear when somebody first uses them. */
function legacyTables(family: Family): ReadonlySet<string> {
  const file = family.name === "IPv4" ? "ip_tables_names" : "ip6_tables_names";
  try {
    return new Set(readFileSync(`/proc/net/${file}`, "utf8").split("\n"));
  } catch {
    return new Set();
  }
}

/** Both families, with nothing known but the configuration. */
function cleanupContexts(config: Config): readonly Context[] {
  const facts: HostFacts = { iptables: "none", randomFully: false, nfacct: false, tcpBeLiberal: false, kernel: [0, 0] };
  return makeContexts({
    config,
    nodeName: "",
    node: undefined,
    identity: nodeIdentity(undefined, config.bindAddress),
    supported: ["IPv4", "IPv6"],
    facts,
    localAddresses: [],
    gates: new Set(),
  }).list;
}
