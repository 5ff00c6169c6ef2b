import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { fit, get, healthy, metric, newApi, resetHost, startProxy, statusOf, tryRun, until } from "./harness.ts";
import { node1, service, slice } from "./objects.ts";

const metrics = "http://127.0.0.1:10249";
const health = "http://127.0.0.1:10256";
const recorded = `${import.meta.dir}/../conformance/http`;

async function running(options: Parameters<typeof startProxy>[1] = {}) {
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply([service("a"), slice("a", ["10.244.2.5"])]);
  const run = startProxy(api, options);
  await until(healthy, () => run.log());
  return { api, run };
}

/** Status and content type of a recorded answer. */
function answerOf(file: string): { status: number; type: string | undefined } {
  const [first = "", ...lines] = readFileSync(`${recorded}/${file}`, "utf8").split("\n");
  const type = lines
    .find((l) => l.toLowerCase().startsWith("content-type:"))
    ?.slice("content-type:".length)
    .trim();
  return { status: Number(first.split(" ")[1]), type };
}

/** Metric names that kube-proxy has in a mode, from the recorded table; those of feature gates left out. */
function recordedMetrics(mode: string): readonly string[] {
  const rows = readFileSync(`${recorded}/../metrics.tsv`, "utf8").trim().split("\n").slice(1);
  return rows
    .map((row) => row.split("\t"))
    .filter((c) => c[3]?.split(",").includes(mode))
    .map((c) => c[0] ?? "");
}

describe.skipIf(!fit)("http", () => {
  test("every recorded path answers with the recorded status and content type", async () => {
    const { run } = await running({ mode: "iptables", config: { enableProfiling: true } });
    const paths: readonly [string, string][] = [
      ["10249_configz.txt", `${metrics}/configz`],
      ["10249_debug_flags_v.txt", `${metrics}/debug/flags/v`],
      ["10249_flagz.txt", `${metrics}/flagz`],
      ["10249_healthz.txt", `${metrics}/healthz`],
      ["10249_livez.txt", `${metrics}/livez`],
      ["10249_metrics_slis.txt", `${metrics}/metrics/slis`],
      ["10249_nope.txt", `${metrics}/nope`],
      ["10249_proxyMode.txt", `${metrics}/proxyMode`],
      ["10249_readyz.txt", `${metrics}/readyz`],
      ["10249_statusz.txt", `${metrics}/statusz`],
      ["10256.txt", `${health}/`],
      ["10256_healthz.txt", `${health}/healthz`],
      ["10256_livez.txt", `${health}/livez`],
    ];
    for (const [file, url] of paths) {
      const { status, headers } = await get(url);
      expect([file, status, headers.get("content-type") ?? undefined]).toEqual([
        file,
        ...Object.values(answerOf(file)),
      ] as never);
    }
    expect((await get(`${metrics}/proxyMode`)).body).toBe("iptables");
    expect(JSON.parse((await get(`${metrics}/configz`)).body)["kubeproxy.config.k8s.io"]).toMatchObject({
      mode: "iptables",
      enableProfiling: true,
    });
    await run.stop();
  });

  test.each(["iptables", "nftables"] as const)(
    "%s: all of kube-proxy's metrics are there, promtool reads them, and they move",
    async (mode) => {
      const { api, run } = await running({ mode });
      const { body } = await get(`${metrics}/metrics`);
      const names = new Set(
        body
          .split("\n")
          .filter((l) => l.startsWith("# TYPE "))
          .map((l) => l.split(" ")[2]),
      );
      expect(recordedMetrics(mode).filter((name) => !names.has(name))).toEqual([]);
      const promtool = Bun.spawnSync(["promtool", "check", "metrics"], { stdin: Buffer.from(body) });
      expect(
        promtool.stderr
          .toString()
          .split("\n")
          .filter((l) => l !== "" && !/non-counter metrics should not have "_total"/.test(l)),
      ).toEqual([]);
      const before = await metric("kubeproxy_sync_proxy_rules_endpoint_changes_total");
      const trigger = {
        metadata: {
          annotations: { "endpoints.kubernetes.io/last-change-trigger-time": new Date(Date.now() + 1).toISOString() },
          labels: { "kubernetes.io/service-name": "a" },
          namespace: "ns",
          name: "a-1",
        },
      };
      await Bun.sleep(5);
      api.apply(slice("a", ["10.244.2.6", "10.244.2.7"], trigger));
      const counted = 'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}';
      await until(
        async () => (await metric(counted)) >= 1,
        () => run.log(),
      );
      expect(await metric("kubeproxy_sync_proxy_rules_endpoint_changes_total")).toBe(before + 1);
      expect(await metric("kubeproxy_sync_proxy_rules_endpoint_changes_pending")).toBe(0);
      expect(
        await metric('kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family="IPv4"}'),
      ).toBeGreaterThanOrEqual(1);
      expect(await metric('kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family="IPv4"}')).toBe(1);
      expect(await metric("kubeproxy_proxy_healthz_total")).toBeGreaterThan(0);
      expect(await metric("kubeproxy_api_last_contact_seconds")).toBeLessThan(60);
      expect(await metric("process_resident_memory_bytes")).toBeGreaterThan(1e7);
      await run.stop();
    },
  );

  test("iptables: the rules in the metric are the rules in the kernel, also after a partial sync", async () => {
    const { api, run } = await running({ mode: "iptables" });
    api.apply([service("b", { clusterIP: "10.96.0.11" }), slice("b", ["10.244.2.8", "10.244.2.9"])]);
    const rules = (table: string): number => {
      const lines = tryRun(`iptables-save -t ${table}`).split("\n");
      return lines.filter((l) => l.startsWith("-A") && l.includes("KUBE-")).length;
    };
    await until(
      () => tryRun("iptables-save -t nat").includes("10.244.2.9"),
      () => run.log(),
    );
    await Bun.sleep(200);
    for (const table of ["nat", "filter"]) {
      const name = `kubeproxy_sync_proxy_rules_iptables_total{ip_family="IPv4",table="${table}"}`;
      expect([table, await metric(name)]).toEqual([table, rules(table)]);
    }
    await run.stop();
  });

  test("verbosity changes live", async () => {
    const { api, run } = await running();
    expect(run.log()).not.toMatch(/"Synced"/);
    const put = await get(`${metrics}/debug/flags/v`, { method: "PUT", body: "4" });
    expect([put.status, put.body]).toEqual([200, "successfully set klog.logging.verbosity to 4"]);
    api.apply(slice("a", ["10.244.2.9"]));
    await until(
      () => /"Synced"/.test(run.log()),
      () => run.log(),
    );
    expect((await get(`${metrics}/debug/flags/v`, { method: "PUT", body: "many" })).status).toBe(400);
    await run.stop();
  });

  test("only GET where GET is meant, and a large body is refused", async () => {
    const { run } = await running();
    for (const path of ["/metrics", "/configz", "/healthz", "/statusz"])
      expect([path, (await get(`${metrics}${path}`, { method: "POST", body: "x" })).status]).toEqual([path, 405]);
    const big = await get(`${metrics}/debug/flags/v`, { method: "PUT", body: "1".repeat(10 * 1024 * 1024) }).catch(
      () => ({ status: 0 }),
    );
    expect([0, 400, 413]).toContain(big.status);
    expect(await healthy()).toBe(true);
    await run.stop();
  });

  test("500 idle connections do not hold up a sync", async () => {
    const { api, run } = await running();
    const sockets = await Promise.all(
      Array.from(
        { length: 500 },
        (_, i) =>
          new Promise<ReturnType<typeof connect>>((resolve, reject) => {
            const socket = connect(i % 2 === 0 ? 10249 : 10256, "127.0.0.1", () => resolve(socket));
            socket.on("error", reject);
          }),
      ),
    );
    api.apply(slice("a", ["10.244.2.42"]));
    await until(
      () => tryRun("nft list table ip kube-proxy").includes("10.244.2.42"),
      () => run.log(),
    );
    expect(await healthy()).toBe(true);
    for (const socket of sockets) socket.destroy();
    await run.stop();
  });

  test("servers listen only where they are configured", async () => {
    const { run } = await running({
      config: { healthzBindAddress: "127.0.0.1:10256", metricsBindAddress: "127.0.0.1:10249" },
    });
    expect(await statusOf("http://192.168.0.2:10256/healthz")).toBe(0);
    expect(await statusOf("http://192.168.0.2:10249/metrics")).toBe(0);
    await run.stop();
  });

  test("old clients without a Host header are answered", async () => {
    const { run } = await running();
    const answer = await rawRequest(10256, "GET /livez HTTP/1.0\r\n\r\n");
    expect(answer).toMatch(/^HTTP\/1\.[01] 200/);
    await run.stop();
  });
});

function rawRequest(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let out = "";
    const socket = connect(port, "127.0.0.1", () => socket.write(text));
    socket.on("data", (d) => {
      out += d.toString();
      socket.end();
    });
    socket.on("close", () => resolve(out));
    socket.on("error", reject);
    setTimeout(() => socket.destroy(), 5_000);
  });
}
