/** Rows of the field reports that need the whole program and no other test shows. */
import { afterEach, describe, expect, test } from "bun:test";
import type { ApiServer } from "../api/server.ts";
import { dump } from "../drift/scene.ts";
import {
  fit,
  healthy,
  newApi,
  type ProxyOptions,
  type ProxyRun,
  resetHost,
  runBinary,
  sh,
  startProxy,
  statusOf,
  tryRun,
  until,
} from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";
import { wrap } from "./tools.ts";

const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one();
});

function cluster(): ApiServer {
  resetHost();
  sh("sysctl -qw net.ipv4.conf.all.route_localnet=0");
  const api = newApi();
  undo.push(() => api.stop());
  api.setNode("node-1", node1);
  const ports = [{ port: 80, protocol: "TCP", targetPort: 8080, nodePort: 30080 }];
  api.apply([
    service("a", { type: "NodePort", ports }),
    slice("a", ["10.244.1.5@node-1", "10.244.2.5"]),
    service("b", { clusterIP: "10.96.0.11", externalIPs: ["203.0.113.9"], internalTrafficPolicy: "Local" }),
    slice("b", ["10.244.2.6"]),
    service("none", { clusterIP: "10.96.0.12" }),
  ]);
  return api;
}

async function start(api: ApiServer, options: ProxyOptions): Promise<ProxyRun> {
  const run = startProxy(api, options);
  undo.push(() => run.stop());
  await until(healthy, () => run.log());
  return run;
}

type Mode = "nftables" | "iptables";
const variantOf = (mode: Mode): "nftables" | "iptables-nft" => (mode === "nftables" ? "nftables" : "iptables-nft");

/**
 * KUBE-FIREWALL is the kubelet's too: its rule against packets to 127.0.0.1 from outside stays, and so does the sysctl
 * that others may need.
 */
function comparable(mode: Mode): string {
  return dump(variantOf(mode)).replace(/.*route_localnet.*\n?|-A KUBE-FIREWALL .*\n/g, "");
}

/** One changed field each, with what was there before. */
const settings = (
  mode: Mode,
): Readonly<Record<string, readonly [Record<string, unknown>, Record<string, unknown>]>> => ({
  clusterCIDR: [{}, { clusterCIDR: "10.200.0.0/16" }],
  detectLocalMode: [{}, { detectLocalMode: "InterfaceNamePrefix", detectLocal: { interfaceNamePrefix: "vp" } }],
  "nodePortAddresses primary": [{}, { nodePortAddresses: ["primary"] }],
  "nodePortAddresses range": [{ nodePortAddresses: ["192.168.0.0/24"] }, { nodePortAddresses: ["10.0.0.0/8"] }],
  masqueradeAll: [{}, { [mode]: { masqueradeAll: true, minSyncPeriod: "50ms", syncPeriod: "1s" } }],
  masqueradeBit: [{}, { [mode]: { masqueradeBit: 12, minSyncPeriod: "50ms", syncPeriod: "1s" } }],
  "localhost node ports":
    mode === "iptables"
      ? [{}, { iptables: { localhostNodePorts: false, minSyncPeriod: "50ms", syncPeriod: "1s" } }]
      : [{ nodePortAddresses: ["primary"] }, { nodePortAddresses: ["primary", "localhost"] }],
});

describe.skipIf(!fit).each(["nftables", "iptables"] as const)("%s", (mode) => {
  test.each(Object.entries(settings(mode)))(
    "a restart with another %s leaves what a clean start would (k/k#142183)",
    async (_, [one, other]) => {
      const ways = [
        [one, other],
        [other, one],
      ] as const;
      // iptables mode writes its chains whole at each start.
      for (const [a, b] of mode === "nftables" ? ways : ways.slice(0, 1)) {
        const api = cluster();
        await (await start(api, { mode, config: a })).stop();
        const run = await start(api, { mode, config: b });
        if (mode === "nftables") {
          // Chains that nothing refers to any more are deleted with a later change.
          await Bun.sleep(1100);
          api.apply(slice("b", ["10.244.2.6", "10.244.2.7"]));
          await until(
            () => dump("nftables").includes("10.244.2.7"),
            () => run.log(),
          );
          api.apply(slice("b", ["10.244.2.6"]));
          await until(
            () => !dump("nftables").includes("10.244.2.7"),
            () => run.log(),
          );
        }
        const after = comparable(mode);
        await run.stop();
        resetHost();
        const fresh = await start(api, { mode, config: b });
        expect(after).toBe(comparable(mode));
        await fresh.stop();
      }
    },
  );

  test.each([["a first"], ["b first"]])(
    "two Services claim one external address, %s: the older one has it, others are not hurt (k/k#69599)",
    async (order) => {
      const api = cluster();
      const claim = (name: string, ip: string, created: string) =>
        service(name, { clusterIP: ip, externalIPs: ["203.0.113.77"] }, { creationTimestamp: created });
      const older = [claim("old", "10.96.0.31", "2026-01-01T00:00:00Z"), slice("old", ["10.244.2.31"])];
      const younger = [claim("young", "10.96.0.32", "2026-01-02T00:00:00Z"), slice("young", ["10.244.2.32"])];
      const run = await start(api, { mode });
      for (const object of order === "a first" ? [...older, ...younger] : [...younger, ...older]) {
        api.apply(object);
        await Bun.sleep(100);
      }
      await until(
        () => /Two Services claim the same/.test(run.log()),
        () => run.log(),
      );
      await until(
        () => dump(variantOf(mode)).includes("10.244.2.31") && dump(variantOf(mode)).includes("10.244.2.32"),
        () => run.log(),
      );
      await Bun.sleep(300);
      const lines = dump(variantOf(mode))
        .split(/\n|,/)
        .filter((l) => l.includes("203.0.113.77") && !/MARK|mark/.test(l));
      expect(lines.some((l) => l.includes("ns/old"))).toBe(true);
      expect(lines.some((l) => l.includes("ns/young"))).toBe(false);
      expect(run.log()).not.toContain("Sync failed");
      expect(run.log().split("Two Services claim the same").length - 1).toBe(1);
    },
  );

  test("the health check port of a Service is 503 while the proxy cannot write rules (PR k/k#111661)", async () => {
    const tool = wrap(mode === "nftables" ? "/usr/sbin/nft" : "/usr/sbin/xtables-nft-multi");
    undo.push(() => tool.remove());
    const api = cluster();
    api.apply([
      service("lb", {
        type: "LoadBalancer",
        clusterIP: "10.96.0.40",
        externalTrafficPolicy: "Local",
        healthCheckNodePort: 32000,
        ports: [{ port: 80, protocol: "TCP", targetPort: 8080, nodePort: 30081 }],
      }),
      slice("lb", ["10.244.1.9@node-1"]),
    ]);
    const run = await start(api, { mode });
    await until(
      async () => (await statusOf("http://192.168.0.2:32000/")) === 200,
      () => run.log(),
    );
    tool.set("echo no >&2; exit 1");
    api.apply(slice("lb", ["10.244.1.9@node-1", "10.244.1.10@node-1"]));
    await until(
      async () => (await statusOf("http://192.168.0.2:32000/")) === 503,
      () => run.log(),
    );
    expect(await healthy()).toBe(false);
    tool.clear();
    await until(
      async () => (await statusOf("http://192.168.0.2:32000/")) === 200,
      () => run.log(),
    );
  });

  test("set up with --init-only, it then needs NET_ADMIN alone and a read-only /proc/sys (k/k#120864)", async () => {
    const api = cluster();
    const first = startProxy(api, { mode, args: ["--init-only"] });
    expect(await first.exit()).toBe(0);
    expect(
      dump(variantOf(mode))
        .replace(/.*route_localnet.*|ip6?tables \w+/g, "")
        .trim(),
    ).toBe("");
    sh("mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys");
    undo.push(() => void tryRun("umount /proc/sys"));
    const run = await start(api, {
      mode,
      wrapper: ["setpriv", "--bounding-set=-all,+net_admin", "--inh-caps=-all,+net_admin"],
    });
    await until(
      () => dump(variantOf(mode)).includes("10.244.2.5"),
      () => run.log(),
    );
  });
});

describe.skipIf(!fit)("odd hosts", () => {
  test("conntrack sysctls that are not there yet: warned about, and rules come (kops#17915)", async () => {
    const api = cluster();
    sh("mount -t tmpfs none /proc/sys/net/netfilter");
    undo.push(() => void tryRun("umount /proc/sys/net/netfilter"));
    const run = await start(api, { config: { conntrack: { maxPerCore: 32768, min: 131072 } } });
    await until(
      () => dump("nftables").includes("10.244.2.5"),
      () => run.log(),
    );
  });

  test("tables of others that make nft crash are never listed (k/k#136786)", async () => {
    const tool = wrap("/usr/sbin/nft");
    undo.push(() => tool.remove());
    const api = cluster();
    tool.set(
      'case " $* " in *ruleset*|*" list tables "*|*" list chains "*|*" list sets "*|*" list maps "*) case " $* " in *" ip "*|*" ip6 "*) ;; *) kill -SEGV $$;; esac;; esac',
    );
    const run = await start(api, {});
    await until(
      () => dump("nftables").includes("10.244.2.5"),
      () => run.log(),
    );
    sh("nft delete table ip kube-proxy");
    await until(
      () => dump("nftables").includes("10.244.2.5"),
      () => run.log(),
    );
    expect(run.log()).not.toContain("SIGSEGV");
  });

  test("an interface prefix that no interface has yet is no error (PR k/k#134024)", async () => {
    const api = cluster();
    const run = await start(api, {
      config: { detectLocalMode: "InterfaceNamePrefix", detectLocal: { interfaceNamePrefix: "vp" } },
    });
    expect(dump("nftables")).toContain('iifname != "vp*"');
    expect(run.log()).not.toContain("Sync failed");
  });

  test("wrong words end it with a line, not with a trace", async () => {
    const run = runBinary(["--proxy-mode", "userspace"]);
    expect(await run.exit()).toBe(1);
    expect(run.log()).toContain("userspace");
    expect(run.log()).not.toMatch(/^\s+at /m);
  });
});
