import { afterEach, describe, expect, test } from "bun:test";
import type { ApiServer } from "../api/server.ts";
import { dump, legacyTools, type Scene, startScene, type Variant } from "../drift/scene.ts";
import {
  fit,
  get,
  healthy,
  metric,
  newApi,
  type ProxyRun,
  resetHost,
  sh,
  startProxy,
  tryRun,
  until,
} from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";
import { type Wrapper, wrap } from "./tools.ts";

const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one();
});

const config = {
  nftables: { minSyncPeriod: "0s", syncPeriod: "1s" },
  iptables: { minSyncPeriod: "0s", syncPeriod: "1s" },
};
const program = { nftables: "/usr/sbin/nft", "iptables-nft": "/usr/sbin/xtables-nft-multi" } as const;

async function scene(variant: Variant): Promise<Scene> {
  const made = await startScene(variant, { config });
  undo.push(async () => {
    await made.run.stop();
    await made.api.stop();
  });
  return made;
}

function wrapped(variant: keyof typeof program): Wrapper {
  const wrapper = wrap(program[variant]);
  undo.push(() => wrapper.remove());
  return wrapper;
}

function addService(api: ApiServer, name: string, ip: string, endpoint: string, spec = {}): void {
  api.apply([service(name, { clusterIP: ip, ...spec }), slice(name, [endpoint])]);
}

const programmed =
  (variant: Variant, ...texts: readonly string[]) =>
  async (): Promise<boolean> => {
    const held = dump(variant);
    return texts.every((text) => held.includes(text));
  };

const logged = (run: ProxyRun, text: string | RegExp): (() => boolean) => {
  const found = (): boolean => (typeof text === "string" ? run.log().includes(text) : text.test(run.log()));
  return found;
};

/** Bodies of wrappers act on what writes rules. */
const writing = (then: string): string => `if [ -s "$input" ]; then ${then}; fi`;

describe.skipIf(!fit).each(["nftables", "iptables-nft"] as const)("the tool of %s", (variant) => {
  test("fails once: tried again soon, all is well", async () => {
    const tool = wrapped(variant);
    const { api, run } = await scene(variant);
    tool.set(writing("if mkdir $dir/once 2>/dev/null; then echo out of luck >&2; exit 1; fi"));
    addService(api, "c", "10.96.0.20", "10.244.2.20");
    await until(programmed(variant, "10.96.0.20", "10.244.2.20"), () => run.log());
    await until(logged(run, "Sync works again"), () => run.log());
    expect(run.log()).toMatch(/"Sync failed, will retry" ipFamily="IPv4" reason=".*out of luck/);
    expect(run.log()).not.toContain("not programmed");
  });

  test("fails always: rules stay as they are, it is told, and when it works all is right within seconds", async () => {
    const tool = wrapped(variant);
    const { api, run } = await scene(variant);
    const before = dump(variant);
    tool.set(writing("echo no memory >&2; exit 1"));
    addService(api, "c", "10.96.0.20", "10.244.2.20");
    await until(logged(run, "Sync failed, will retry"), () => run.log());
    await Bun.sleep(3000);
    expect(dump(variant)).toBe(before);
    await until(
      () => api.events().some((e) => JSON.stringify(e).includes("SyncFailed")),
      () => "no event",
    );
    tool.clear();
    await until(programmed(variant, "10.96.0.20", "10.244.2.20"), () => run.log());
    // Nobody is left in quarantine for what was the tool's fault.
    await until(
      async () =>
        (await get("http://127.0.0.1:10249/metrics")).body.includes(
          'kubeproxy_quarantined_services{ip_family="IPv4"} 0',
        ),
      () => run.log(),
    );
  });

  test("refuses one Service's rules: it is left out and named, all others are programmed, and it is tried again", async () => {
    const tool = wrapped(variant);
    const { api, run } = await scene(variant);
    tool.set(writing(`if grep -q 10.244.6.66 "$input"; then echo "no such match" >&2; exit 1; fi`));
    for (let i = 0; i < 20; i++) addService(api, `s${i}`, `10.96.1.${i}`, i === 13 ? "10.244.6.66" : `10.244.3.${i}`);
    const others = Array.from({ length: 20 }, (_, i) => `10.244.3.${i}:`.slice(0, -1)).filter((_, i) => i !== 13);
    await until(programmed(variant, ...others), () => run.log());
    await until(
      logged(
        run,
        /"Service not programmed, all others are; will retry" service="ns\/s13" ipFamily="IPv4" reason=".*no such match/,
      ),
      () => run.log(),
    );
    expect(
      run
        .log()
        .match(/service="ns\/[^"]*"/g)
        ?.every((s) => s === 'service="ns/s13"'),
    ).toBe(true);
    expect(await metric("kubeproxy_quarantined_services")).toBe(1);
    await until(
      () => api.events().some((e) => JSON.stringify(e).includes("ServiceNotProgrammed")),
      () => "no event",
    );
    // It goes on for all others.
    addService(api, "later", "10.96.1.99", "10.244.3.99");
    await until(programmed(variant, "10.244.3.99"), () => run.log());
    // A new version is tried at once, though the old one would have to wait.
    tool.clear();
    api.apply(slice("s13", ["10.244.6.66", "10.244.6.67"]));
    await until(programmed(variant, "10.244.6.66", "10.244.6.67"), () => run.log());
    await until(
      async () => (await metric("kubeproxy_quarantined_services")) === 0,
      () => run.log(),
    );
  });

  test("is killed in the middle: said so, tried again, nobody is blamed", async () => {
    const tool = wrapped(variant);
    const { api, run } = await scene(variant);
    tool.set(writing("if mkdir $dir/killed 2>/dev/null; then kill -KILL $$; fi"));
    addService(api, "c", "10.96.0.20", "10.244.2.20");
    await until(programmed(variant, "10.96.0.20", "10.244.2.20"), () => run.log());
    expect(run.log()).toMatch(/was killed by SIGKILL/);
    expect(run.log()).not.toContain("Service not programmed");
  });

  test("prints megabytes: they are read and dropped", async () => {
    const tool = wrapped(variant);
    const { api, run } = await scene(variant);
    tool.set(writing("head -c 8000000 /dev/zero | tr '\\\\0' x | tee /dev/stderr"));
    addService(api, "c", "10.96.0.20", "10.244.2.20");
    await until(programmed(variant, "10.96.0.20", "10.244.2.20"), () => run.log().slice(-2000));
    expect(run.log().length).toBeLessThan(50_000);
  });
});

describe.skipIf(!fit)("tools and kernel", () => {
  test("a tool that hangs is killed at its time limit and the next try works", async () => {
    const tool = wrapped("nftables");
    const { api, run } = await scene("nftables");
    tool.set(writing("if mkdir $dir/hung 2>/dev/null; then sleep 1000; fi"));
    addService(api, "c", "10.96.0.20", "10.244.2.20");
    await until(programmed("nftables", "10.96.0.20", "10.244.2.20"), () => run.log(), 60_000);
    expect(run.log()).toMatch(/did not end within 30\.\d+ s and was killed/);
  }, 90_000);

  test("the xtables lock is held by another process: said by whom, written when it is free (k/k#107482)", async () => {
    sh("mount -t tmpfs none /run");
    undo.push(() => void tryRun("umount -l /run"));
    undo.push(legacyTools());
    const { api, run } = await scene("iptables-legacy");
    const holder = Bun.spawn(["flock", "/run/xtables.lock", "sleep", "9"]);
    undo.push(() => holder.kill("SIGKILL"));
    await Bun.sleep(200);
    addService(api, "c", "10.96.0.20", "10.244.2.20");
    await until(programmed("iptables-legacy", "10.96.0.20", "10.244.2.20"), () => run.log(), 40_000);
    expect(run.log()).toMatch(/the xtables lock is held by process \d+ \((flock|sleep)\)/);
    expect(run.log()).not.toContain("Service not programmed");
  });

  test("a match that the kernel lacks costs only the Services that need it (kind#1740)", async () => {
    const tool = wrapped("iptables-nft");
    tool.set(
      writing(
        `if grep -q -e "-m recent" "$input"; then echo "iptables-restore: Couldn't load match recent" >&2; exit 2; fi`,
      ),
    );
    const { api, run } = await start("iptables", [
      service("sticky", { clusterIP: "10.96.2.1", sessionAffinity: "ClientIP" }),
      slice("sticky", ["10.244.4.1", "10.244.4.2"]),
      service("plain", { clusterIP: "10.96.2.2" }),
      slice("plain", ["10.244.4.3"]),
    ]);
    await until(programmed("iptables-nft", "10.244.4.3"), () => run.log());
    await until(logged(run, /"Service not programmed[^\n]* service="ns\/sticky" [^\n]*recent/), () => run.log());
    expect(dump("iptables-nft")).not.toContain("10.244.4.1");
    addService(api, "more", "10.96.2.3", "10.244.4.4");
    await until(programmed("iptables-nft", "10.244.4.4"), () => run.log());
  });

  test("read-only /proc/sys: it runs where nothing has to be changed, else one line says what to do", async () => {
    resetHost();
    sh(
      "sysctl -qw net.ipv4.conf.all.route_localnet=0; mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys",
    );
    undo.push(() => void tryRun("umount /proc/sys"));
    const { run } = await start("iptables", [], false, {
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
    });
    expect(await run.exit()).toBe(1);
    expect(run.log()).toMatch(/route_localnet[^\n]*read-only/i);
    expect(run.log()).not.toMatch(/^\s+at /m);
    sh(
      "umount /proc/sys; sysctl -qw net.ipv4.conf.all.route_localnet=1; mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys",
    );
    const second = await start("iptables", [service("a"), slice("a", ["10.244.2.5"])], false, {
      conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
    });
    await until(healthy, () => second.run.log());
    expect(await programmed("iptables-nft", "10.244.2.5")()).toBe(true);
  });
});

async function start(
  mode: "iptables" | "nftables",
  objects: Parameters<ApiServer["apply"]>[0],
  reset = true,
  more: Readonly<Record<string, unknown>> = {},
): Promise<{ readonly api: ApiServer; readonly run: ProxyRun }> {
  if (reset) resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply(objects);
  const run = startProxy(api, { mode, config: { ...config, ...more } });
  undo.push(async () => {
    await run.stop();
    await api.stop();
  });
  return { api, run };
}
