import { afterEach, describe, expect, test } from "bun:test";
import type { ApiServer, ApiServerOptions } from "../api/server.ts";
import {
  fit,
  get,
  healthy,
  metric,
  newApi,
  nftTable,
  type ProxyRun,
  resetHost,
  startProxy,
  until,
} from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";

const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one();
});

async function running(options: ApiServerOptions = {}): Promise<{ readonly api: ApiServer; readonly run: ProxyRun }> {
  resetHost();
  const api = newApi(options);
  api.setNode("node-1", node1);
  api.apply([
    service("a"),
    slice("a", ["10.244.2.5"]),
    service("b", { clusterIP: "10.96.0.11" }),
    slice("b", ["10.244.2.6"]),
  ]);
  const run = startProxy(api, { config: { nftables: { minSyncPeriod: "0s", syncPeriod: "5s" } } });
  undo.push(async () => {
    await run.stop();
    await api.stop();
  });
  await until(healthy, () => run.log());
  await until(
    () => api.openWatches >= 3,
    () => `${api.openWatches} watches`,
  );
  return { api, run };
}

const holds =
  (text: string, there = true) =>
  (): boolean =>
    nftTable().includes(text) === there;
const both = (): void => {
  expect(nftTable()).toContain("10.244.2.5");
  expect(nftTable()).toContain("10.244.2.6");
};

describe.skipIf(!fit)("the API server", () => {
  test.each(["gone", "half-line", "garbage", "reset", "end"] as const)("open watches get: %s", async (fault) => {
    const { api, run } = await running();
    api.liveFault(fault);
    // While nobody watches, one goes and one comes.
    api.remove("Service", "ns", "b");
    api.apply([service("c", { clusterIP: "10.96.0.12" }), slice("c", ["10.244.2.7"])]);
    await until(holds("10.244.2.7"), () => run.log());
    await until(holds("10.96.0.11", false), () => nftTable());
    expect(nftTable()).toContain("10.244.2.5");
    expect(run.log()).not.toMatch(/^\s+at /m);
  });

  test.each([
    { kind: "status", code: 429, reason: "TooManyRequests", retryAfter: 1 },
    { kind: "status", code: 500 },
    { kind: "status", code: 503 },
    { kind: "gone-event" },
    { kind: "content-type" },
    { kind: "half-line" },
    { kind: "reset" },
  ] as const)("requests get for a while: $kind $code", async (fault) => {
    const { api, run } = await running();
    api.fault({ fault, times: 6 });
    api.liveFault("end");
    both();
    api.apply([service("c", { clusterIP: "10.96.0.12" }), slice("c", ["10.244.2.7"])]);
    await until(holds("10.244.2.7"), () => run.log(), 40_000);
    both();
  });

  test("restarts, and objects went while it was away: rules stay, then follow; the age of the last contact is told", async () => {
    const { api, run } = await running();
    await api.stop();
    api.remove("Service", "ns", "b");
    api.remove("EndpointSlice", "ns", "b-1");
    await until(
      async () => (await metric("kubeproxy_api_last_contact_seconds")) >= 2,
      () => run.log(),
    );
    both();
    expect((await get("http://127.0.0.1:10249/statusz")).body).toMatch(/Last API contact\W+.*ago/);
    expect(await healthy()).toBe(true);
    await api.restart();
    await until(holds("10.244.2.6", false), () => run.log(), 40_000);
    expect(nftTable()).toContain("10.244.2.5");
    await until(
      async () => (await metric("kubeproxy_api_last_contact_seconds")) < 2,
      () => run.log(),
    );
  });

  test("is stopped in the middle and goes on later (SIGSTOP): rules stay, then follow", async () => {
    const { api, run } = await running();
    api.faults.freeze();
    api.apply([service("c", { clusterIP: "10.96.0.12" }), slice("c", ["10.244.2.7"])]);
    await Bun.sleep(1500);
    both();
    api.faults.thaw();
    await until(holds("10.244.2.7"), () => run.log(), 40_000);
  });

  test("refuses us for a while (401): rules stay, and it is tried again", async () => {
    const { api, run } = await running();
    api.setTokens(["new"]);
    api.liveFault("reset");
    await until(
      () => /401|Unauthorized/.test(run.log()),
      () => run.log(),
    );
    both();
    expect(await healthy()).toBe(true);
    api.setTokens(undefined);
    api.apply([service("c", { clusterIP: "10.96.0.12" }), slice("c", ["10.244.2.7"])]);
    await until(holds("10.244.2.7"), () => run.log(), 40_000);
  });

  test("sends objects that are none: each is named once, all others work (k/k#28674)", async () => {
    const { api, run } = await running();
    api.apply([
      {
        ...service("bad"),
        spec: {
          type: "ClusterIP",
          clusterIP: "10.96.0.300",
          clusterIPs: null,
          ports: [null, { port: 0 }, { port: "x" }],
        },
      },
      { ...slice("bad", []), endpoints: [{ addresses: ["10.244.9.999"] }, null, { addresses: null }] },
      service("c", { clusterIP: "10.96.0.12" }),
      slice("c", ["10.244.2.7"]),
    ] as never);
    await until(holds("10.244.2.7"), () => run.log());
    await until(
      () => /ns\/bad/.test(run.log()),
      () => run.log(),
    );
    both();
    expect(run.log()).not.toMatch(/^\s+at /m);
  });
});
