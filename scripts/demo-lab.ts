/** The demo behind scripts/demo: a lab, the API server fixture, the real binary, and connections through every kind of address. */
import { Cluster } from "../test/lab/cluster.ts";
import { Lab } from "../test/lab/lab.ts";
import { families, type Place, type Pod, placeAddress, placeSpace, podNamed, podNode } from "../test/lab/topology.ts";
import { doorAddress, type Placed, placeServices, serviceObjects, sliceObjects } from "../test/packets/objects.ts";
import type { Door, Row } from "../test/packets/row.ts";
import { configuration } from "../test/packets/settings.ts";

/** Enough that no pod is missed by chance. */
const perWay = 60;
const ways: readonly (readonly [Place, string, Door])[] = [
  ["pod-a", "pod a on node-1", "cluster IP"],
  ["outside", "outside host", "node port"],
  ["outside", "outside host", "load balancer"],
];

const since = (start: number): string => `${((performance.now() - start) / 1000).toFixed(2)} s`;

/** Connects all ways in both families; prints a line each and returns how many did not work as they should. */
async function show(lab: Lab, web: Placed, pods: readonly Pod[]): Promise<number> {
  let bad = 0;
  for (const family of families) {
    for (const [from, who, door] of ways) {
      const source = placeAddress(from, family);
      const { ip, port } = doorAddress(web, door, family);
      const attempt = {
        namespace: lab.space(placeSpace(from)),
        kind: "tcp" as const,
        ...(source === undefined ? {} : { source }),
        ip,
        port,
        patience: 5000,
      };
      const outcomes = await lab.probe(Array.from({ length: perWay }, () => attempt));
      const counts = new Map<string, number>();
      for (const outcome of outcomes) {
        const name = outcome.kind === "answered" ? (podNamed(outcome.by, family) ?? outcome.by) : outcome.kind;
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
      const fine = [...counts.keys()].sort().join() === [...pods].sort().join();
      bad += fine ? 0 : 1;
      const answers = [...counts].sort().map(([name, count]) => `${name}×${count}`);
      const address = ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`;
      const line = [who.padEnd(16), door.padEnd(14), address.padEnd(22), answers.join("  ")].join(" ");
      console.log(`  ${line}${fine ? "" : `   expected ${pods.join(", ")}`}`);
    }
  }
  return bad;
}

async function demo(mode: "iptables" | "nftables", lab: Lab, cluster: Cluster): Promise<number> {
  const start = performance.now();
  lab.build();
  const pods: readonly Pod[] = ["b", "c", "d"];
  const homes = pods.map((pod) => `${pod} on ${podNode(pod)}`).join(", ");
  console.log(`lab          two nodes, pods, an outside host as network namespaces ${lab.prefix}* (${since(start)})`);
  await cluster.startApi();
  const row: Row = {
    name: "demo",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", endpoints: pods }],
    packets: [],
  };
  const web = placeServices([row], 1).get(row)?.get("web");
  if (web === undefined) {
    throw new Error("the demo's Service has no place");
  }
  await cluster.apply(serviceObjects(web));
  console.log(`API server   ours, on node-1's loopback: Service web, endpoints ${homes}`);
  const begin = performance.now();
  const kind = mode === "nftables" ? "nftables" : "iptables-nft";
  const config = configuration("plain", { mode: kind, compact: false, kubeconfig: cluster.kubeconfig });
  await cluster.startProxy(config, undefined);
  console.log(`kube-proxy   dist/kube-proxy in ${mode} mode on node-1, rules in place after ${since(begin)}\n`);
  console.log(
    `  ${"from".padEnd(16)} ${"through".padEnd(14)} ${"address".padEnd(22)} answered by, of ${perWay} connections`,
  );
  let bad = await show(lab, web, pods);
  await cluster.apply(sliceObjects(web, ["b", "d"]));
  await cluster.settle();
  console.log("\n  pod c leaves the EndpointSlice");
  bad += await show(lab, web, ["b", "d"]);
  return bad;
}

const mode = process.argv[2] === "nftables" ? "nftables" : "iptables";
const lab = new Lab();
const cluster = new Cluster(lab, 20_000);
let bad = 1;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    lab.end();
    process.exit(130);
  });
}
try {
  bad = await demo(mode, lab, cluster);
} catch (error) {
  console.error(`demo: ${error instanceof Error ? error.message : error}`);
} finally {
  await cluster.end();
  lab.end();
}
console.log(
  bad === 0
    ? "\nall connections were answered; everything is removed again"
    : "\nthe demo FAILED; everything is removed again",
);
process.exit(bad === 0 ? 0 : 1);
