import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { fit, get, healthy, metric, newApi, nftTable, resetHost, sh, startProxy, statusOf, until } from "./harness.ts";
import { node1, service, slice } from "./objects.ts";

const zoned = (zone: string) => ({ endpoint: { hints: { forZones: [{ name: zone }] } } });
const twoSlices = [
  slice("z", ["10.244.1.5"], zoned("zone-a")),
  slice("z", ["10.244.2.5"], { ...zoned("zone-b"), metadata: { name: "z-2" } }),
];

describe.skipIf(!fit)("node", () => {
  test("a changed zone label is planned anew at once, heartbeats are not", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([service("z"), ...twoSlices]);
    const run = startProxy(api);
    await until(healthy, () => run.log());
    expect(nftTable()).toContain("dnat to 10.244.1.5");
    const syncs = await metric('kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}');
    for (let i = 0; i < 100; i++) {
      api.apply({
        apiVersion: "v1",
        kind: "Node",
        metadata: { name: "node-1", labels: { ...node1.labels, "kubernetes.io/hostname": "node-1" } },
        spec: { podCIDR: node1.podCIDRs[0], podCIDRs: node1.podCIDRs },
        status: {
          addresses: node1.addresses.map((address) => ({ type: "InternalIP", address })),
          conditions: [{ type: "Ready", lastHeartbeatTime: String(i) }],
        },
      } as never);
    }
    await Bun.sleep(500);
    expect(await metric('kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}')).toBe(syncs);
    api.setNode("node-1", { ...node1, labels: { "topology.kubernetes.io/zone": "zone-b" } });
    await until(
      () => nftTable().includes("dnat to 10.244.2.5"),
      () => run.log() + nftTable(),
    );
    api.setNode("node-1", { ...node1, labels: {} });
    await until(
      () => nftTable().includes("numgen random mod 2"),
      () => run.log(),
    );
    await run.stop();
  });

  test("deletion of the Node ends the process with exit 1, the rules stay", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([service("a"), slice("a", ["10.244.2.5"])]);
    const run = startProxy(api);
    await until(healthy, () => run.log());
    api.remove("Node", "", "node-1");
    expect(await run.exit()).toBe(1);
    expect(run.log()).toContain("the Node node-1 was deleted");
    expect(nftTable()).toContain("10.244.2.5");
  });

  test("a new node address is taken up without a restart", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([
      service("np", { type: "NodePort", ports: [{ port: 80, protocol: "TCP", nodePort: 30080 }] }),
      slice("np", ["10.244.2.5"]),
    ]);
    const run = startProxy(api);
    await until(healthy, () => run.log());
    sh("ip addr add 192.168.0.77/24 dev eth0");
    api.setNode("node-1", { ...node1, addresses: ["192.168.0.77", "fd00:192:168::2"] });
    await until(
      () => /set nodeport-ips \{[^}]*192\.168\.0\.77/.test(nftTable()),
      () => run.log() + nftTable(),
    );
    await run.stop();
  });

  test("pod CIDRs that change in NodeCIDR mode are planned anew", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([service("a"), slice("a", ["10.244.2.5"])]);
    const run = startProxy(api, { config: { detectLocalMode: "NodeCIDR" } });
    await until(healthy, () => run.log());
    expect(nftTable()).toContain("ip saddr != 10.244.1.0/24");
    api.setNode("node-1", { ...node1, podCIDRs: ["10.244.9.0/24", "fd00:10:244:9::/64"] });
    await until(
      () => nftTable().includes("ip saddr != 10.244.9.0/24"),
      () => run.log(),
    );
    await run.stop();
  });

  test("the autoscaler's taint and a deletion timestamp fail /healthz, not /livez", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    const run = startProxy(api);
    await until(healthy, () => run.log());
    api.setNode("node-1", { ...node1, taints: [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }] });
    await until(
      async () => (await statusOf("http://127.0.0.1:10256/healthz")) === 503,
      () => run.log(),
    );
    expect(JSON.parse((await get("http://127.0.0.1:10256/healthz")).body)).toMatchObject({
      nodeEligible: false,
      healthy: false,
    });
    expect(await statusOf("http://127.0.0.1:10256/livez")).toBe(200);
    api.setNode("node-1", node1);
    await until(healthy, () => run.log());
    await run.stop();
  });

  test("the host name is lower-cased, and a name without Node is one loud line that says what to set", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    const upper = startProxy(api, { hostname: " NODE-1 " });
    await until(healthy, () => upper.log());
    await upper.stop();
    const wrong = startProxy(api, { hostname: "node-x" });
    await until(
      () => /^E.*node-x/m.test(wrong.log()),
      () => wrong.log(),
      45_000,
    );
    expect(wrong.log().match(/^E.*hostname-override.*node-x/gm)).toHaveLength(1);
    await until(healthy, () => wrong.log());
    expect(await metric("kubeproxy_node_known")).toBe(0);
    await wrong.stop();
  });

  test("a single-stack host gets one info line and one family", async () => {
    resetHost();
    sh(
      "ip -6 addr flush dev lo; ip -6 addr flush dev eth0; ip -6 addr flush dev eth0p; sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
    );
    const api = newApi();
    api.setNode("node-1", { addresses: ["192.168.0.2"] });
    const run = startProxy(api);
    await until(healthy, () => run.log());
    await run.stop();
    sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=0");
    expect(run.log().match(/IPv6 is switched off/g)).toHaveLength(1);
    expect(run.log()).not.toMatch(/^E/m);
  });

  test("oom_score_adj is set", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    const run = startProxy(api, { config: { oomScoreAdj: 321 } });
    await until(healthy, () => run.log());
    expect(readFileSync(`/proc/${run.process.pid}/oom_score_adj`, "utf8").trim()).toBe("321");
    await run.stop();
  });
});
