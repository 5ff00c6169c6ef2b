import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import type { ApiServer } from "../api/server.ts";
import {
  fit,
  get,
  healthy,
  newApi,
  newDir,
  nftTable,
  type ProxyRun,
  resetHost,
  runBinary,
  sh,
  startProxy,
  statusOf,
  until,
} from "./harness.ts";
import { node1, service, slice } from "./objects.ts";

function setUp(): ApiServer {
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply([service("a"), slice("a", ["10.244.2.5"])]);
  return api;
}

async function running(api: ApiServer, options: Parameters<typeof startProxy>[1] = {}): Promise<ProxyRun> {
  const run = startProxy(api, options);
  await until(healthy, () => run.log());
  return run;
}

describe.skipIf(!fit)("lifecycle", () => {
  test.each(["SIGTERM", "SIGINT"] as const)("%s: exit 0, rules stay, servers are closed", async (signal) => {
    const run = await running(setUp());
    run.process.kill(signal);
    expect(await run.exit()).toBe(0);
    expect(nftTable()).toContain("10.244.2.5");
    expect(await statusOf("http://127.0.0.1:10256/livez")).toBe(0);
  });

  test("SIGTERM while waiting for the API server ends it too", async () => {
    resetHost();
    const api = newApi();
    await api.stop();
    const run = startProxy(api);
    await until(
      () => /Waiting for the Node/.test(run.log()),
      () => run.log(),
    );
    run.process.kill("SIGTERM");
    expect(await run.exit()).toBe(0);
  });

  test.each(["SIGUSR1", "SIGHUP", "SIGPIPE"] as const)("%s does not end it", async (signal) => {
    const run = await running(setUp());
    run.process.kill(signal);
    await Bun.sleep(300);
    expect(await healthy()).toBe(true);
    await run.stop();
  });

  test("a configuration of another meaning ends it with exit 0; the same meaning and invalid text do not", async () => {
    const run = await running(setUp());
    const text = readFileSync(run.configFile, "utf8");
    writeFileSync(run.configFile, `${text}\n# a comment\n`);
    await until(
      () => /not its meaning/.test(run.log()),
      () => run.log(),
    );
    writeFileSync(run.configFile, text.replace('"nftables"', '"nonsense"'));
    await until(
      () => /invalid/.test(run.log()) && /mode/.test(run.log()),
      () => run.log(),
    );
    expect(await healthy()).toBe(true);
    writeFileSync(run.configFile, text.replace("10.244.0.0/16", "10.240.0.0/16"));
    expect(await run.exit()).toBe(0);
    expect(nftTable()).toContain("10.244.2.5");
  });

  test("a ConfigMap's symlink swap is noticed", async () => {
    const api = setUp();
    const dir = newDir();
    const write = (version: string, masqueradeAll: boolean): void => {
      mkdirSync(`${dir}/..${version}`);
      const config = {
        apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
        kind: "KubeProxyConfiguration",
        mode: "nftables",
        clientConnection: { kubeconfig: `${dir}/kubeconfig` },
        conntrack: { maxPerCore: 0 },
        nftables: { masqueradeAll },
      };
      writeFileSync(`${dir}/..${version}/config.conf`, JSON.stringify(config));
      symlinkSync(`..${version}`, `${dir}/..data_tmp`);
      renameSync(`${dir}/..data_tmp`, `${dir}/..data`);
    };
    api.writeKubeconfig({}, `${dir}/kubeconfig`);
    write("v1", false);
    symlinkSync("..data/config.conf", `${dir}/config.conf`);
    const run = runBinary(["--config", `${dir}/config.conf`, "--hostname-override", "node-1"]);
    await until(healthy, () => run.log());
    write("v2", true);
    expect(await run.exit()).toBe(0);
  });

  test("SIGHUP reads the file again at once", async () => {
    const run = await running(setUp());
    run.process.kill("SIGHUP");
    await until(
      () => /SIGHUP/.test(run.log()) && /not its meaning/.test(run.log()),
      () => run.log(),
    );
    await run.stop();
  });

  test("a port that is taken: bindAddressHardFail ends it, else it keeps trying and serves when the port is free", async () => {
    const api = setUp();
    const thief = Bun.serve({
      hostname: "0.0.0.0",
      port: 10256,
      reusePort: false,
      fetch: () => new Response("mine", { status: 418 }),
    });
    const hard = startProxy(api, { config: { bindAddressHardFail: true } });
    expect(await hard.exit()).toBe(1);
    expect(hard.log()).toMatch(/healthzBindAddress.*10256/);
    const soft = startProxy(api);
    await until(
      () => /cannot listen/.test(soft.log()),
      () => soft.log(),
    );
    await until(
      () => nftTable().includes("10.244.2.5"),
      () => soft.log(),
    );
    await thief.stop(true);
    await until(healthy, () => soft.log());
    await soft.stop();
  });

  test("systemd is told READY, pings and STOPPING", async () => {
    const api = setUp();
    const socket = `${newDir()}/notify`;
    const listener = Bun.spawn(["socat", "-u", `UNIX-RECV:${socket}`, "STDOUT"], { stdout: "pipe" });
    await until(
      () => sh(`test -S ${socket} && echo yes || true`).includes("yes"),
      () => "no socket",
    );
    const run = await running(api, { env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: "400000" } });
    let heard = "";
    void (async () => {
      for await (const chunk of listener.stdout) heard += new TextDecoder().decode(chunk);
    })();
    await until(
      () => heard.includes("READY=1") && heard.split("WATCHDOG=1").length > 2,
      () => heard,
    );
    run.process.kill("SIGTERM");
    expect(await run.exit()).toBe(0);
    await until(
      () => heard.includes("STOPPING=1"),
      () => heard,
    );
    listener.kill();
    await listener.exited;
  });

  test("events: Starting, and the default mode's warning only when no mode was chosen", async () => {
    const api = setUp();
    const chosen = await running(api);
    await until(
      () => api.events().some((e) => e["reason"] === "Starting"),
      () => chosen.log(),
    );
    expect(api.events().some((e) => e["reason"] === "KubeProxyDefaultMode")).toBe(false);
    await chosen.stop();
    const unset = startProxy(api, { config: { mode: "", iptables: { minSyncPeriod: "50ms" } } });
    await until(
      () => api.events().some((e) => e["reason"] === "KubeProxyDefaultMode"),
      () => unset.log(),
    );
    const [event] = api.events();
    expect(event).toMatchObject({
      reportingController: "kube-proxy",
      regarding: { kind: "Node", name: "node-1" },
      action: "StartKubeProxy",
    });
    await unset.stop();
  });

  test("ipvs switched off by its gate, and ipvs on a host without ip_vs, are refused by name", async () => {
    const api = setUp();
    const gate = startProxy(api, { config: { mode: "ipvs", featureGates: { KubeProxyIPVS: false } } });
    expect(await gate.exit()).toBe(1);
    expect(gate.log()).toContain("KubeProxyIPVS");
    const bare = startProxy(api, { config: { mode: "ipvs" } });
    expect(await bare.exit()).toBe(1);
    expect(bare.log()).toMatch(/ip_vs/);
    expect(nftTable()).toBe("");
  });

  test("a node port that a process listens on is programmed, and both parties are named (kubernetes#76892)", async () => {
    const api = setUp();
    const victim = Bun.serve({ hostname: "0.0.0.0", port: 30099, reusePort: false, fetch: () => new Response("mine") });
    api.apply(
      service("np", {
        clusterIP: "10.96.0.30",
        type: "NodePort",
        ports: [{ port: 80, protocol: "TCP", nodePort: 30099 }],
      }),
    );
    const run = await running(api);
    await until(
      () => /30099\/tcp/.test(run.log()),
      () => run.log(),
    );
    expect(run.log()).toMatch(new RegExp(`ns/np.*30099/tcp.*pid ${process.pid}`));
    await until(
      () => api.events().some((e) => e["reason"] === "NodePortInUse"),
      () => run.log(),
    );
    expect(nftTable()).toMatch(/tcp \. 30099/);
    await victim.stop(true);
    await run.stop();
  });

  test("the health check port of a Service: weight header, 503 without local endpoints, closed when it goes", async () => {
    const api = setUp();
    const lb = service("lb", {
      clusterIP: "10.96.0.20",
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      healthCheckNodePort: 32100,
      ports: [{ port: 80, protocol: "TCP", nodePort: 30081 }],
    });
    api.apply([lb, slice("lb", ["10.244.1.5@node-1", "10.244.1.6@node-1", "10.244.2.6"])]);
    const run = await running(api);
    const answer = await get("http://192.168.0.2:32100/");
    expect([answer.status, answer.headers.get("x-load-balancing-endpoint-weight")]).toEqual([200, "2"]);
    expect(await statusOf("http://127.0.0.1:32100/")).toBe(0);
    api.apply(slice("lb", ["10.244.2.6"]));
    await until(
      async () => (await statusOf("http://192.168.0.2:32100/")) === 503,
      () => run.log(),
    );
    api.remove("Service", "ns", "lb");
    await until(
      async () => (await statusOf("http://192.168.0.2:32100/")) === 0,
      () => run.log(),
    );
    await run.stop();
  });
});
