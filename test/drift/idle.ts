/**
 * `unshare -n -m env KP_NETNS=1 bun test/drift/idle.ts`: what an idle proxy with 1,000 Services costs, tools and monitors
 * included, in CPU milliseconds a second. Asserts nothing.
 */
import { readFileSync } from "node:fs";
import { healthy, newApi, resetHost, startProxy, until } from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";
import { legacyTools, type Variant } from "./scene.ts";

const seconds = Number(process.argv[2] ?? 65);
for (const variant of ["nftables", "iptables-nft", "iptables-legacy"] as const satisfies readonly Variant[]) {
  const undo = variant === "iptables-legacy" ? legacyTools() : () => {};
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  for (let i = 0; i < 1000; i++) {
    api.apply([
      service(`s${i}`, { clusterIP: `10.96.${i >> 8}.${i & 255}` }),
      slice(`s${i}`, ["10.244.2.1", "10.244.2.2"]),
    ]);
  }
  const mode = variant === "nftables" ? "nftables" : "iptables";
  const run = startProxy(api, { mode, config: { [mode]: { minSyncPeriod: "1s", syncPeriod: "30s" } } });
  await until(healthy, () => run.log(), 60_000);
  await Bun.sleep(3000);
  const before = cpu(run.process.pid);
  await Bun.sleep(seconds * 1000);
  const used = cpu(run.process.pid) - before;
  const resident = Math.round(
    Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${run.process.pid}/status`, "utf8"))?.[1]) / 1024,
  );
  console.log(`idle ${variant}: ${(used / seconds).toFixed(2)} ms CPU a second, ${resident} MB resident`);
  await run.stop();
  await api.stop();
  undo();
}
process.exit(0);

/** Milliseconds of the process and all children that it waited for, and of those that live. */
function cpu(pid: number): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .trim()
    .split(" ")
    .filter((c) => c !== "");
  return [String(pid), ...children].reduce((sum, p) => sum + ticks(p), 0) * 10;
}

function ticks(pid: string): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0);
}
