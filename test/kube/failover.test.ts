/** Dead connections: two API servers behind one address, a stopped process, and packets that vanish. */
import { afterEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import type { Socket } from "bun";
import { anonymousAccess, type ClusterAccess } from "../../src/kube/cluster-access.ts";
import { startInformers } from "../../src/kube/informers.ts";
import { ObjectStore } from "../../src/kube/object-store.ts";
import { Transport } from "../../src/kube/transport.ts";
import { clientCertificate, makeAuthority, serverCertificate } from "../api/certificates.ts";
import type { ApiObject } from "../api/object-store.ts";
import { startApiServer } from "../api/server.ts";
import { recordingLog, until } from "./recorder.ts";

let stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  stops = [];
});

const timings = { quiet: 150, probe: 1_300, grace: 100, initialQuiet: 2_000, lifetime: 60_000 };

function follow(access: ClusterAccess) {
  const recorder = recordingLog();
  const transport = new Transport(access, { log: recorder.log, userAgent: "x", qps: -1, burst: 1 });
  const store = new ObjectStore("n1");
  const stop = new AbortController();
  const backOff = { first: 5, most: 20 };
  const common = { transport, store, nodeName: "n1", serviceCIDRs: false, log: recorder.log };
  const source = startInformers({ ...common, signal: stop.signal, timings, backOff });
  stops.push(() => {
    stop.abort();
    return source.done;
  });
  return { store, source, transport, names: () => [...store.snapshot().services.keys()].sort().join(" "), ...recorder };
}

const service = (name: string): ApiObject => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "ns" },
  spec: { clusterIP: "10.0.0.1", ports: [{ port: 80 }] },
});

/** A load balancer of TCP connections: those that exist stay with their server, whatever becomes of it. */
function balance(first: number) {
  let target = first;
  const peers = new Map<Socket<unknown>, Promise<Socket<unknown>>>();
  const listener = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(client) {
        const socket = { data: (_: unknown, data: Buffer) => void client.write(data), close: () => void client.end() };
        peers.set(client, Bun.connect({ hostname: "127.0.0.1", port: target, socket }));
      },
      async data(client, data) {
        (await peers.get(client))?.write(data);
      },
      async close(client) {
        (await peers.get(client))?.end();
      },
    },
  });
  stops.push(() => listener.stop(true));
  return {
    url: `http://127.0.0.1:${listener.port}`,
    to: (port: number) => {
      target = port;
    },
  };
}

test("behind a load balancer one API server goes silent, the other is used", async () => {
  const one = startApiServer({ objects: [service("a")] });
  const two = startApiServer({ store: one.store });
  stops.push(
    () => one.stop(),
    () => two.stop(),
  );
  const balancer = balance(one.port);
  const { source, names } = follow(anonymousAccess(balancer.url, "test"));
  await source.ready;
  one.faults.freeze();
  one.liveFault("silent");
  balancer.to(two.port);
  one.apply(service("b"));
  await until("the other server's news", () => names() === "ns/a ns/b");
  expect(two.openWatches).toBeGreaterThan(0);
});

test("a stopped API server process (SIGSTOP: the kernel still answers) is noticed, and used again after", async () => {
  const directory = mkdtempSync("/tmp/kp-failover-");
  const [kubeconfig, socket] = [`${directory}/k`, `${directory}/s`];
  const main = `${import.meta.dir}/../api/main.ts`;
  const child = Bun.spawn([process.execPath, main, "--kubeconfig-out", kubeconfig, "--control-socket", socket], {
    stdout: "pipe",
    stderr: "inherit",
  });
  stops.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  const url = Buffer.from((await child.stdout.getReader().read()).value ?? [])
    .toString()
    .trim();
  const apply = (object: ApiObject) =>
    fetch("http://x/_control/apply", { unix: socket, method: "POST", body: JSON.stringify(object) });
  await apply(service("a"));
  const { source, names, text } = follow(anonymousAccess(url, "test"));
  await source.ready;
  child.kill("SIGSTOP");
  await until("noticed", () => text().includes("no answer in time"));
  expect(names()).toBe("ns/a");
  child.kill("SIGCONT");
  await apply(service("b"));
  await until("right again", () => names() === "ns/a ns/b");
});

test("rotated client certificates: open watches move to the new ones", async () => {
  const authority = makeAuthority();
  const directory = mkdtempSync("/tmp/kp-failover-");
  const [cert, key] = [`${directory}/c`, `${directory}/k`];
  const write = (user: string) => {
    const pair = clientCertificate(authority, user);
    writeFileSync(cert, pair.cert);
    writeFileSync(key, pair.key);
  };
  write("one");
  const server = startApiServer({ tls: serverCertificate(authority), clientCA: authority.cert });
  stops.push(() => server.stop());
  const { source } = follow({
    ...anonymousAccess(server.url, "test"),
    ca: { kind: "inline", text: authority.cert },
    clientCertificate: { kind: "file", path: cert },
    clientKey: { kind: "file", path: key },
  });
  await source.ready;
  const watches = () => server.requests.filter((one) => one.query["allowWatchBookmarks"] === "true").length;
  expect(watches()).toBe(3);
  write("two");
  await until("three new watches", () => watches() === 6);
  await until("the old ones are closed", () => server.openWatches === 3);
});

const missing = ["unshare", "ip", "nft"].filter((tool) => Bun.which(tool) === null);
const why = process.getuid?.() !== 0 ? "needs root" : missing.length > 0 ? `needs ${missing.join(", ")}` : "";
if (why !== "") console.log(`skipped: packets that vanish (${why})`);

test.skipIf(why !== "")(
  "packets that vanish in both directions are noticed, and the watch is right once they flow",
  () => {
    const done = spawnSync("unshare", ["-n", process.execPath, `${import.meta.dir}/black-hole.ts`], {
      encoding: "utf8",
      timeout: 25_000,
    });
    expect(done.stdout.trim().split("\n")).toEqual(["ready", "noticed", "unchanged ns/a", "right ns/a ns/b"]);
    expect(done.status).toBe(0);
  },
  30_000,
);
