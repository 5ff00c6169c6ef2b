import { describe, expect, test } from "bun:test";
import { fit, get, healthy, metric, newApi, resetHost, sh, startProxy, statusOf, tryRun, until } from "./harness.ts";
import { node1, service, slice } from "./objects.ts";

const nodePort = (port: number) => ({ type: "NodePort", ports: [{ port: 80, protocol: "TCP", nodePort: port }] });

/** Reachable only in this namespace: an address of eth0 plays the pod. */
function startPod(): { stop(): void } {
  sh("ip addr add 10.244.1.5/32 dev eth0");
  const server = Bun.serve({ hostname: "10.244.1.5", port: 8080, fetch: () => new Response("pod") });
  return { stop: () => void server.stop(true) };
}

describe.skipIf(!fit)("node ports on localhost in nftables mode", () => {
  test("are refused at once by default, and served over both families with the gate", async () => {
    resetHost();
    const pod = startPod();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([service("np", nodePort(30080)), slice("np", ["10.244.1.5@node-1"])]);
    const plain = startProxy(api);
    await until(healthy, () => plain.log());
    expect(await statusOf("http://127.0.0.1:30080/")).toBe(0);
    await plain.stop();
    const gated = startProxy(api, {
      config: {
        featureGates: { KubeProxyNFTablesLocalhostNodePorts: true },
        nodePortAddresses: ["primary", "localhost"],
      },
    });
    await until(
      async () => (await statusOf("http://127.0.0.1:30080/")) === 200,
      () => gated.log(),
    );
    expect((await get("http://127.0.0.1:30080/")).body).toBe("pod");
    expect(await metric('kubeproxy_nftables_localhost_nodeport_listeners{ip_family="IPv4"}')).toBe(1);
    api.remove("Service", "ns", "np");
    await until(
      async () => (await statusOf("http://127.0.0.1:30080/")) === 0,
      () => gated.log(),
    );
    await gated.stop();
    pod.stop();
  });

  test("a port that another process has is counted and said, the rest works", async () => {
    resetHost();
    const pod = startPod();
    const api = newApi();
    api.setNode("node-1", node1);
    const thief = Bun.serve({
      hostname: "127.0.0.1",
      port: 30090,
      reusePort: false,
      fetch: () => new Response("mine"),
    });
    api.apply([service("np", nodePort(30090)), slice("np", ["10.244.1.5@node-1"])]);
    const run = startProxy(api, {
      config: { featureGates: { KubeProxyNFTablesLocalhostNodePorts: true }, nodePortAddresses: ["localhost"] },
    });
    await until(healthy, () => run.log());
    await until(
      async () =>
        (await metric('kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total{ip_family="IPv4"}')) >= 1,
      () => run.log(),
    );
    expect(run.log()).toContain("30090");
    expect(tryRun("nft list table ip kube-proxy")).toContain("10.96.0.10 . tcp . 80 : goto");
    await thief.stop(true);
    await run.stop();
    pod.stop();
  });
});
