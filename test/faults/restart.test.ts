import { afterEach, describe, expect, test } from "bun:test";
import type { ApiServer } from "../api/server.ts";
import { dump } from "../drift/scene.ts";
import { Random } from "../model/random.ts";
import { fit, get, healthy, newApi, type ProxyRun, resetHost, startProxy, until } from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";

/** How often the proxy is killed; 200 is the whole test. */
const kills = Number(process.env["KP_RESTARTS"] ?? 12);
const services = 1000;
const seed = Number(process.env["KP_RESTART_SEED"] ?? Date.now() % 1_000_000);

const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one();
});

const ipOf = (i: number): string => `10.96.${1 + (i >> 8)}.${i & 255}`;

function cluster(): ApiServer {
  resetHost();
  const api = newApi();
  undo.push(() => api.stop());
  api.setNode("node-1", node1);
  const objects = Array.from({ length: services }, (_, i) => [
    service(`s${i}`, { clusterIP: ipOf(i) }),
    slice(`s${i}`, [`10.244.2.${i % 250}`]),
  ]).flat();
  // The probe's own: its endpoint is a listener of this namespace.
  api.apply([...objects, service("probe", { clusterIP: "10.96.0.10" }), slice("probe", ["192.168.0.2"])]);
  return api;
}

function change(api: ApiServer, random: Random): void {
  const i = random.below(services);
  if (random.chance(20)) api.remove("Service", "ns", `s${i}`);
  else {
    api.apply(service(`s${i}`, { clusterIP: ipOf(i) }));
    api.apply(slice(`s${i}`, [`10.244.3.${random.below(250)}`, `10.244.4.${random.below(250)}`]));
  }
}

describe.skipIf(!fit).each(["nftables", "iptables"] as const)("%s", (mode) => {
  test(`killed ${kills} times at random moments, seed ${seed}: each start ends right, no connection fails in between`, async () => {
    const api = cluster();
    const listener = Bun.listen({
      hostname: "192.168.0.2",
      port: 8080,
      socket: { data: () => {}, open: (s) => void s.end() },
    });
    undo.push(() => listener.stop(true));
    const config = { [mode]: { minSyncPeriod: "0s", syncPeriod: "30s" } };
    let run: ProxyRun = startProxy(api, { mode, config });
    undo.push(() => run.stop());
    await until(healthy, () => run.log(), 60_000);
    const prober = Bun.spawn([process.execPath, `${import.meta.dir}/prober.ts`, "10.96.0.10", "80"], {
      stdout: "pipe",
    });
    undo.push(() => prober.kill("SIGKILL"));
    const random = new Random(seed);
    for (let i = 0; i < kills; i++) {
      for (let n = 0; n < 20; n++) change(api, random);
      await Bun.sleep(random.below(300));
      await run.stop();
      for (let n = 0; n < 5; n++) change(api, random);
      run = startProxy(api, { mode, config });
      // Half of them are killed again while they start.
      if (random.chance(50)) {
        await Bun.sleep(random.below(600));
        continue;
      }
      await until(healthy, () => run.log(), 60_000);
    }
    await until(healthy, () => run.log(), 60_000);
    await settled();
    // nftables deletes chains that nothing refers to any more with the next change, a moment later.
    await until(
      async () => {
        api.apply([service("s0", { clusterIP: ipOf(0) }), slice("s0", [`10.244.5.${random.below(250)}`])]);
        await Bun.sleep(1000);
        return !/chain (service|endpoint|external)-\S+ \{ \}/.test(dump("nftables"));
      },
      () => run.log(),
    );
    await settled();
    expect(run.log()).not.toContain("Sync failed");
    prober.kill("SIGTERM");
    const said = JSON.parse(
      (await new Response(prober.stdout).text()).split("\n").find((l) => l.startsWith("{")) ?? "{}",
    );
    console.log(`restart ${mode}: ${said.good} connections, ${said.bad} failed ${said.last}`);
    expect(said).toMatchObject({ bad: 0, last: "" });
    expect(said.good).toBeGreaterThan(100);
    const variant = mode === "nftables" ? "nftables" : "iptables-nft";
    const held = sorted(dump(variant));
    await run.stop();
    resetHost();
    run = startProxy(api, { mode, config });
    await until(healthy, () => run.log(), 60_000);
    await settled();
    expect(held.length).toBeGreaterThan(services);
    expect(held).toEqual(sorted(dump(variant)));
  }, 600_000);
});

/** Dispatch rules of different Services have no order of their own. */
function sorted(text: string): string[] {
  return text
    .split("\n")
    .flatMap((l) => l.split(","))
    .map((l) => l.trim())
    .sort();
}

/** No sync was due for a while. */
async function settled(): Promise<void> {
  let before = "";
  await until(
    async () => {
      await Bun.sleep(300);
      const { body } = await get("http://127.0.0.1:10249/metrics");
      const now = body
        .split("\n")
        .filter((l) => /^kubeproxy_sync_proxy_rules_last_(queued_)?timestamp_seconds/.test(l))
        .join();
      const same = now === before;
      before = now;
      return same;
    },
    () => before,
  );
}
