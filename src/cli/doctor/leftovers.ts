/** Rules of other modes and of the other iptables variant, which still act on packets beside those of the mode asked about. */
import { existsSync, readFileSync } from "node:fs";
import { runSteps } from "../../host/run.ts";
import type { HostFacts, ProxyMode } from "../../model/context.ts";
import { type Family, IPv4, IPv6 } from "../../model/family.ts";
import type { ExecStep } from "../../model/step.ts";
import { parseSave } from "../../tools/iptables-save.ts";
import { type Check, ok, warn } from "./check.ts";

const fix = "kube-proxy --cleanup, then start the proxy again";

/** Reads names only. `variant`: the one that `iptables` stands for. */
export async function checkLeftovers(mode: ProxyMode, variant: HostFacts["iptables"]): Promise<readonly Check[]> {
  const checks: Check[] = [];
  for (const family of [IPv4, IPv6]) {
    for (const own of ["nft", "legacy"] as const) checks.push(...(await checkIptables(mode, variant, own, family)));
    checks.push(...(await checkNftables(mode, family)));
  }
  checks.push(...checkIpvs(mode));
  return checks.length > 0 ? checks : [ok("leftovers", "no rules of any kube-proxy")];
}

// --- internal ---

/** kubelet makes these and keeps them. */
const kubelets = /^KUBE-(KUBELET-CANARY|FIREWALL|MARK-DROP|IPTABLES-HINT)$/;

async function checkIptables(
  mode: ProxyMode,
  variant: HostFacts["iptables"],
  own: "nft" | "legacy",
  family: Family,
): Promise<readonly Check[]> {
  const tool = `${family.iptables}-${own}-save`;
  let count = 0;
  for (const table of legacyTables(own, family)) {
    const step: ExecStep = { kind: "exec", tool, args: ["-t", table], mayFail: true, about: "look for leftovers" };
    const [result] = await runSteps([step]);
    if (result?.exitCode !== 0) continue;
    const chains = parseSave(result.stdout).get(table)?.chains.keys() ?? [];
    for (const chain of chains) if (chain.startsWith("KUBE-") && !kubelets.test(chain)) count++;
  }
  if (count === 0) return [];
  const found = `${count} KUBE-* chains in ${family.iptables}-${own}`;
  if (mode !== "nftables" && own === variant) return [ok("leftovers", `${found}: of this mode, or replaced by it`)];
  const meaning =
    mode === "nftables"
      ? "rules of iptables or ipvs mode still translate addresses"
      : `iptables is the ${variant} variant here: rules of the ${own} variant still act, and are never updated`;
  return [warn("leftovers", found, meaning, fix)];
}

/** Merely asking iptables-legacy for a table creates it: only those that exist are. */
function legacyTables(variant: "nft" | "legacy", family: Family): readonly string[] {
  const all = ["mangle", "nat", "filter"];
  if (variant === "nft") return all;
  const file = `/proc/net/${family.bits === 32 ? "ip" : "ip6"}_tables_names`;
  try {
    const names = readFileSync(file, "utf8").split("\n");
    return all.filter((name) => names.includes(name));
  } catch {
    return [];
  }
}

async function checkNftables(mode: ProxyMode, family: Family): Promise<readonly Check[]> {
  const args = ["list", "tables", family.nft];
  const [result] = await runSteps([{ kind: "exec", tool: "nft", args, mayFail: true, about: "look for leftovers" }]);
  if (result?.stdout.split("\n").includes(`table ${family.nft} kube-proxy`) !== true) return [];
  const found = `table ${family.nft} kube-proxy is there`;
  if (mode === "nftables") return [ok("leftovers", `${found}: of this mode`)];
  return [warn("leftovers", found, "rules of nftables mode still translate addresses", fix)];
}

function checkIpvs(mode: ProxyMode): readonly Check[] {
  if (!existsSync("/sys/class/net/kube-ipvs0")) return [];
  if (mode === "ipvs") return [ok("leftovers", "kube-ipvs0 is there: of this mode")];
  return [warn("leftovers", "kube-ipvs0 is there", "its addresses still catch the traffic of Services", fix)];
}
