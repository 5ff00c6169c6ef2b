import { afterEach, describe, expect, test } from "bun:test";
import type { ApiServer } from "../api/server.ts";
import { dump } from "../drift/scene.ts";
import { fit, get, healthy, newApi, type ProxyRun, resetHost, sh, startProxy, until } from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";

const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one();
});

/** The whole test is 200 Services and 50 rounds. */
const [churned = 50, rounds = 20] = (process.env["KP_CHURN"] ?? "50x20").split("x").map(Number);

async function running(
  mode: "nftables" | "iptables",
  minSyncPeriod: string,
): Promise<{ api: ApiServer; run: ProxyRun }> {
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply([service("a"), slice("a", ["10.244.2.5"])]);
  const run = startProxy(api, { mode, config: { [mode]: { minSyncPeriod, syncPeriod: "30s" } } });
  undo.push(async () => {
    await run.stop();
    await api.stop();
  });
  await until(healthy, () => run.log());
  return { api, run };
}

/** Sum over families of a counter or a histogram's count. */
async function total(name: string): Promise<number> {
  const { body } = await get("http://127.0.0.1:10249/metrics");
  const lines = body.split("\n").filter((l) => l.startsWith(`${name} `) || l.startsWith(`${name}{`));
  return lines.reduce((sum, l) => sum + Number(l.slice(l.lastIndexOf(" ") + 1)), 0);
}

const syncs = (): Promise<number> => total("kubeproxy_sync_proxy_rules_duration_seconds_count");

describe.skipIf(!fit)("load", () => {
  test("1,000 changes in a second are a handful of syncs, 100 Node heartbeats none (k/k#31631)", async () => {
    const { api, run } = await running("nftables", "1s");
    const before = await syncs();
    for (let i = 0; i < 1000; i++) {
      api.apply(slice("a", [`10.244.3.${i % 250}`, `10.244.4.${i % 240}`]));
      if (i % 10 === 9) await Bun.sleep(10);
    }
    await until(
      () => dump("nftables").includes("10.244.3.249") && dump("nftables").includes("10.244.4.39"),
      () => run.log(),
    );
    const after = await syncs();
    console.log(`load: 1,000 changes were ${(after - before) / 2} syncs of each family`);
    expect((after - before) / 2).toBeLessThan(10);
    await Bun.sleep(1500);
    const idle = await syncs();
    for (let i = 0; i < 100; i++) {
      api.setNode("node-1", { ...node1, labels: { ...node1.labels, heartbeat: String(i) } });
      await Bun.sleep(5);
    }
    await Bun.sleep(1500);
    expect(await syncs()).toBe(idle);
  });

  test.each(["nftables", "iptables"] as const)(
    `%s: ${churned} Services churned ${rounds} times: no failed sync, nothing left over (k/k#122604)`,
    async (mode) => {
      const { api, run } = await running(mode, "0s");
      const variant = mode === "nftables" ? "nftables" : "iptables-nft";
      const clean = dump(variant);
      const before = await syncs();
      for (let round = 0; round < rounds; round++) {
        for (let i = 0; i < churned; i++) {
          const ports = [
            { name: `p${round % 3}`, port: 80 + (round % 2), protocol: "TCP", targetPort: 8080, nodePort: 30000 + i },
          ];
          const spec = {
            clusterIP: `10.96.5.${i}`,
            type: "NodePort",
            ports,
            sessionAffinity: round % 2 === 0 ? "ClientIP" : "None",
          };
          api.apply(service(`s${i}`, spec));
          const made = slice(`s${i}`, [`10.244.6.${i}`, `10.244.7.${(i + round) % 250}`].slice(0, 1 + (round % 2)));
          api.apply({ ...made, ports: [{ name: `p${round % 3}`, port: 8080, protocol: "TCP" }] } as never);
        }
        await Bun.sleep(100);
        for (let i = round % 2; i < churned; i += 2) {
          api.remove("Service", "ns", `s${i}`);
          api.remove("EndpointSlice", "ns", `s${i}-1`);
        }
        await Bun.sleep(100);
        // Not faster than it is programmed, or there would be nothing to see.
        if (round % 4 === 3)
          await until(
            () => dump(variant).includes(`10.96.5.${1 - (round % 2)}`),
            () => run.log(),
          );
      }
      for (let i = 0; i < churned; i++) {
        api.remove("Service", "ns", `s${i}`);
        api.remove("EndpointSlice", "ns", `s${i}-1`);
      }
      // nftables deletes chains that nothing refers to any more with the next change, a moment later.
      await until(
        async () => {
          api.apply(slice("a", ["10.244.2.5", "10.244.2.6"]));
          await Bun.sleep(300);
          api.apply(slice("a", ["10.244.2.5"]));
          await Bun.sleep(700);
          return dump(variant) === clean;
        },
        () => `${dump(variant)}\n${run.log()}`,
        30_000,
      );
      expect((await syncs()) - before).toBeGreaterThan(rounds / 4);
      expect(run.log()).not.toMatch(/Sync failed|not programmed|Unexpected/);
      if (mode === "nftables") expect(sh("nft list sets | grep -c affinity- || true").trim()).toBe("0");
    },
    120_000,
  );
});
