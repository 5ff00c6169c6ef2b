/** What the drift tests share: a small cluster under a real proxy, one dump of all that is ours, one change, one repair. */
import { expect } from "bun:test";
import { writeFileSync } from "node:fs";
import type { ApiServer } from "../api/server.ts";
import {
  get,
  healthy,
  newApi,
  newDir,
  type ProxyOptions,
  type ProxyRun,
  resetHost,
  sh,
  startProxy,
  tryRun,
  until,
} from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";

export type Variant = "iptables-nft" | "iptables-legacy" | "nftables";

/** Puts other programs in place of some, in this mount namespace only; gives what undoes it. */
export function replaceTools(pairs: Readonly<Record<string, string>>): () => void {
  const names = Object.entries(pairs);
  for (const [old, replacement] of names) sh(`mount --bind ${replacement} $(readlink -f ${old})`);
  return () => {
    for (const [old] of names) sh(`umount -l $(readlink -f ${old})`);
  };
}

/** The legacy iptables under the usual names. */
export function legacyTools(): () => void {
  return replaceTools({ "/usr/sbin/xtables-nft-multi": "/usr/sbin/xtables-legacy-multi" });
}

/** iptables-nft as before, but its monitor ends at once. */
export function withoutMonitor(): () => void {
  const dir = newDir();
  sh(`cp $(readlink -f /usr/sbin/xtables-nft-multi) ${dir}/xtables-nft-multi`);
  const script = `#!/bin/bash\ncase $0 in *xtables-monitor) exit 1;; esac\nexec -a "$0" ${dir}/xtables-nft-multi "$@"\n`;
  writeFileSync(`${dir}/wrapper`, script, { mode: 0o755 });
  return replaceTools({ "/usr/sbin/xtables-nft-multi": `${dir}/wrapper` });
}

export interface Scene {
  readonly api: ApiServer;
  readonly run: ProxyRun;
  readonly variant: Variant;
}

/** A proxy at work on three Services, one of them without endpoints. */
export async function startScene(variant: Variant, options: ProxyOptions = {}): Promise<Scene> {
  resetHost();
  sh("sysctl -qw net.ipv4.conf.all.route_localnet=0");
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply([
    service("a", {
      type: "NodePort",
      ports: [{ port: 80, protocol: "TCP", targetPort: 8080, nodePort: 30080 }],
      externalTrafficPolicy: "Cluster",
    }),
    slice("a", ["10.244.1.5@node-1", "10.244.2.5"]),
    service("b", { clusterIP: "10.96.0.11", sessionAffinity: "ClientIP" }),
    slice("b", ["10.244.2.6", "10.244.2.7"]),
    service("none", { clusterIP: "10.96.0.12" }),
  ]);
  const run = startProxy(api, { mode: variant === "nftables" ? "nftables" : "iptables", ...options });
  await until(healthy, () => run.log());
  return { api, run, variant };
}

/** All that the kernel holds of ours, in a form that is the same before and after a repair. */
export function dump(variant: Variant): string {
  if (variant === "nftables") return ["ip", "ip6"].map((f) => nftDump(f)).join("\n");
  const suffix = variant === "iptables-legacy" ? "-legacy" : "-nft";
  const saved = ["iptables", "ip6tables"].flatMap((tool) =>
    ["nat", "filter", "mangle"].map(
      (table) => `${tool} ${table}\n${ours(tryRun(`${tool}${suffix}-save -t ${table}`))}`,
    ),
  );
  return [...saved, tryRun("sysctl net.ipv4.conf.all.route_localnet")].join("\n");
}

/** Metric by kind. */
export async function repairs(): Promise<ReadonlyMap<string, number>> {
  const { body } = await get("http://127.0.0.1:10249/metrics");
  const found = body.matchAll(/^kubeproxy_drift_repairs_total\{kind="([^"]+)"\} (\d+)$/gm);
  return new Map([...found].map(([, kind = "", n]) => [kind, Number(n)]));
}

export interface Mutation {
  readonly name: string;
  readonly command: string;
  /** What the metric is counted under. */
  readonly kind: RegExp;
}

export interface Repaired {
  /** Log lines about it. */
  readonly lines: readonly string[];
  readonly ms: number;
}

/** Changes the kernel, waits until everything is as before and told of; throws when it is not within 20 s. */
export async function mutateAndWait(scene: Scene, { name, command, kind }: Mutation): Promise<Repaired> {
  const before = dump(scene.variant);
  const counted = await repairs();
  const logged = scene.run.log().length;
  sh(command);
  const start = performance.now();
  const about = (): string =>
    `${name}\nbefore:\n${before}\nafter:\n${dump(scene.variant)}\nlog:\n${scene.run.log().slice(logged)}`;
  await until(() => dump(scene.variant) === before, about);
  const ms = Math.round(performance.now() - start);
  const lines = (): string[] =>
    scene.run
      .log()
      .slice(logged)
      .split("\n")
      .filter((l) => l.includes("Rules of ours were changed"));
  await until(() => lines().length > 0, about);
  const now = await repairs();
  const grown = [...now].filter(([k, n]) => n > (counted.get(k) ?? 0)).map(([k]) => k);
  expect(
    grown.some((k) => kind.test(k)),
    `${name}: counted as ${grown.join(", ")}`,
  ).toBe(true);
  return { lines: lines(), ms };
}

// --- internal ---

/** KUBE chains, and jumps to them, sorted by chain with the order within it kept. */
function ours(saved: string): string {
  const lines = saved.split("\n").filter((l) => /^(:|-A )/.test(l) && l.includes("KUBE-"));
  const chains = new Map<string, string[]>();
  for (const line of lines) {
    const name = /^(?::|-A )(\S+)/.exec(line)?.[1] ?? "";
    chains.set(name, [...(chains.get(name) ?? []), line.replace(/ \[\d+:\d+\]$/, "")]);
  }
  return [...chains]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, rules]) => rules.join("\n"))
    .join("\n");
}

/** Chains and sets in an order of their own, elements sorted, counters and what packets added left out. */
function nftDump(family: string): string {
  const text = tryRun(`nft -s list table ${family} kube-proxy`);
  const blocks = text
    .replace(/\n\}\s*$/, "")
    .split(/\n(?=\t(?:chain|map|set|counter) )/)
    .map((block) => {
      if (!/^\t(map|set)/.test(block)) return block;
      const elements = /elements = \{([^}]*)\}/.exec(block)?.[1] ?? "";
      const sorted = elements
        .split(",\n")
        .map((e) => e.trim())
        .sort()
        .join(",");
      return `${block.replace(/elements = \{[^}]*\}/, "")}${sorted}`;
    });
  return blocks
    .map((b) => b.replace(/\s+/g, " ").trim())
    .sort()
    .join("\n");
}
