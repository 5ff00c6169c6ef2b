/** status: the running program's own words, exit codes for healthy, unhealthy and not there, and --watch. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { ProxyStatus } from "../../src/app/status.ts";
import { type StatusJson, statusJson, statusJsonRoute } from "../../src/app/status-json.ts";
import { statusText } from "../../src/cli/status-text.ts";
import { judgeHealth } from "../../src/health/state.ts";
import type { SyncReport } from "../../src/model/report.ts";
import { cluster, folder, kernelUnavailable, kubeProxy, Net, program, until } from "./program.ts";

setDefaultTimeout(120_000);
const unavailable = kernelUnavailable("nft", "ip");
if (unavailable !== undefined) console.warn(`status: kernel tests skipped: ${unavailable}`);
const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

const report: SyncReport = {
  family: "IPv4",
  mode: "nftables",
  startedAt: 9_000,
  finishedAt: 9_040,
  full: false,
  ok: true,
  error: undefined,
  stages: { plan: 1, desired: 2.25, observe: 0, diff: 3, apply: 33 },
  counts: {},
  triggers: [],
  noLocalEndpoints: { internal: 0, external: 0 },
  quarantined: [{ service: "shop/bad", reason: "the kernel refuses \u001b[31mit", since: 3_000 }],
};

function made(change: (status: ProxyStatus) => void, now = 10_000): StatusJson {
  const status = new ProxyStatus("n1", ["IPv4"], 30_000, 1_000);
  change(status);
  return statusJson({
    ...{ status, mode: "nftables", version: "v1.37.0", commit: "c", runtime: "bun", pid: 7, now },
    ...{ source: "https://api:6443", lastContact: now - 2_500 },
  });
}

test("the text: everything asked of it, ages as of the answer, nothing that colours a terminal", () => {
  const text = statusText(
    made((status) => {
      status.synced(report, undefined);
      status.queued("IPv4", 9_500);
      status.pending = { services: 2, endpoints: 5 };
      status.nodeKnown = false;
      status.repaired({ at: 8_000, family: "IPv4", what: "chain x is gone", by: "process 9 (nft)" }, 3);
    }),
  );
  for (const line of [
    "Process       kube-proxy v1.37.0, bun, pid 7, up 9.0 s",
    "Health        ok",
    "Objects from  https://api:6443, last heard 2.5 s ago",
    "Pending       2 Services, 5 EndpointSlices",
    "  synced      1.0 s ago",
    "  waiting     changes of 0.5 s ago are not in the kernel yet",
    "  last sync   partial, 40 ms (plan 1.0, desired 2.3, observe 0.0, diff 3.0, apply 33.0)",
    "  left out    shop/bad, 7.0 s so far: the kernel refuses  [31mit",
    "Repairs       3 things of ours that others had changed",
    "              last 2.0 s ago, IPv4: chain x is gone (by process 9 (nft))",
  ])
    expect(text).toContain(`${line}\n`);
  expect(text).toContain("there is no such Node");
});

test("json and health agree with /healthz, also before the first sync and after a failed one", () => {
  const never = made(() => {});
  expect([never.healthy, never.families[0]?.lastSync, never.nodeKnown]).toEqual([false, null, null]);
  const failed = made((status) => {
    status.synced(report, undefined);
    status.synced({ ...report, ok: false, error: "no nft" }, undefined);
  }, 200_000);
  expect(failed.families[0]).toMatchObject({
    healthy: false,
    lastSync: { ok: false, error: "no nft" },
    dueSince: 9_000,
  });
  expect(statusText(failed)).toContain("FAILED: no nft");
  const status = new ProxyStatus("n1", ["IPv4"], 30_000, 0);
  expect(judgeHealth(status.healthFacts(), 1).healthy).toBe(false);
});

test("only its own path, GET and HEAD only", () => {
  const facts = () => made(() => {});
  expect(statusJsonRoute("/statusz", new Request("http://x/statusz"), facts)).toBeUndefined();
  expect(statusJsonRoute("/status.json", new Request("http://x/", { method: "POST" }), facts)?.status).toBe(405);
  expect(statusJsonRoute("/status.json", new Request("http://x/"), facts)?.headers.get("content-type")).toBe(
    "application/json",
  );
});

test.skipIf(unavailable !== undefined)(
  "of a running process: 0; after its end: 3, one line; --watch sees it go",
  async () => {
    const net = await Net.open();
    closers.push(() => net.close());
    const nothing = await net.kubeProxy("status");
    expect([nothing.code, nothing.out, nothing.err.trimEnd().split("\n").length]).toEqual([3, "", 1]);
    expect(nothing.err).toMatch(
      /^kube-proxy status: no kube-proxy answers at http:\/\/127\.0\.0\.1:10249\/status\.json \(connection refused\): does it run/,
    );

    const config = `${folder({ "c.yaml": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\nmetricsBindAddress: 0.0.0.0:10777\nhostnameOverride: n1\noomScoreAdj: 0\nconntrack: {maxPerCore: 0}\n" })}/c.yaml`;
    const running = net.start("--config", config, "--manifests", cluster());
    closers.push(() => running.kill());
    const ask = (...more: readonly string[]) => net.kubeProxy("status", "--config", config, ...more);
    await until("healthy", async () => (await ask()).code === 0);
    const text = (await ask()).out;
    expect(text).toContain("Mode          nftables\n");
    expect(text).toContain("IPv4          2 Services, 2 ports, 3 endpoints\n");
    expect(JSON.parse((await ask("-o", "json")).out)).toMatchObject({
      nodeName: "n1",
      nodeKnown: true,
      pid: running.pid,
      healthy: true,
    });

    const watching = Bun.spawn(
      [...net.enter([...program, "status", "--config", config, "--watch", "--interval", "100ms"])],
      {
        stdout: "pipe",
        stderr: "pipe",
      },
    );
    closers.push(() => watching.kill());
    let seen = "";
    const reading = (async () => {
      for await (const chunk of watching.stdout) seen += Buffer.from(chunk).toString();
    })();
    await until("asked twice", () => seen.split("Mode ").length > 2);
    running.kill();
    await until("it is gone", () => seen.includes("no kube-proxy answers"));
    watching.kill("SIGINT");
    await Promise.all([watching.exited, reading]);
    expect(watching.exitCode).toBe(3);
  },
);

test("not healthy: 1; something else at that address: 3; nowhere to ask: 2", async () => {
  let body = JSON.stringify(made(() => {}));
  const server = Bun.serve({ port: 0, hostname: "127.0.0.1", development: false, fetch: () => new Response(body) });
  const ask = () => kubeProxy("status", "--metrics-bind-address", `127.0.0.1:${server.port}`);
  expect(await ask()).toMatchObject({ code: 1, out: expect.stringContaining("NOT OK"), err: "" });
  body = "<html>hello";
  expect(await ask()).toMatchObject({ code: 3, err: expect.stringContaining("is not this kube-proxy") });
  await server.stop(true);
  const nowhere = await kubeProxy("status", "--metrics-bind-address", "");
  expect(nowhere).toMatchObject({ code: 2, err: expect.stringContaining("metricsBindAddress is empty") });
  expect(await kubeProxy("status", "--interval", "1ms")).toMatchObject({
    code: 2,
    err: expect.stringContaining("at least 100ms"),
  });
});
