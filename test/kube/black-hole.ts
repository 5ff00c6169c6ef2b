/** Run by failover.test.ts in a network namespace of its own: nft drops every packet of the API connections for a while. */
import { spawnSync } from "node:child_process";
import { anonymousAccess } from "../../src/kube/cluster-access.ts";
import { startInformers } from "../../src/kube/informers.ts";
import { ObjectStore } from "../../src/kube/object-store.ts";
import { Transport } from "../../src/kube/transport.ts";
import { startApiServer } from "../api/server.ts";
import { recordingLog, until } from "./recorder.ts";

function run(...argv: readonly [string, ...string[]]): void {
  const done = spawnSync(argv[0], argv.slice(1), { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${argv.join(" ")}: ${done.stderr}`);
}

const service = (name: string) => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "ns" },
  spec: { clusterIP: "10.0.0.1", ports: [{ port: 80 }] },
});

run("ip", "link", "set", "lo", "up");
const server = startApiServer({ objects: [service("a")] });
const { log, text } = recordingLog();
const transport = new Transport(anonymousAccess(server.url, "test"), { log, userAgent: "x", qps: -1, burst: 1 });
const store = new ObjectStore("n1");
const stop = new AbortController();
const timings = { quiet: 200, probe: 1_500, grace: 100, initialQuiet: 2_000, lifetime: 60_000 };
const common = { transport, store, nodeName: "n1", serviceCIDRs: false, log, timings };
const source = startInformers({ ...common, signal: stop.signal, backOff: { first: 20, most: 100 } });
const names = (): string => [...store.snapshot().services.keys()].sort().join(" ");
await source.ready;
console.log("ready");
run(
  "nft",
  `add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c tcp dport ${server.port} drop; add rule inet t c tcp sport ${server.port} drop`,
);
server.apply(service("b"));
await until("noticed", () => text().includes("no answer in time"));
console.log("noticed");
console.log("unchanged", names());
run("nft", "delete table inet t");
await until("right", () => names() === "ns/a ns/b");
console.log("right", names());
process.exit(0);
