/** The metrics server's page over a ProxyStatus filled with Services of our own; no kernel is touched. */
import { serve } from "bun";
import { ProxyStatus } from "../../src/app/status.ts";
import { statusJson, statusJsonRoute } from "../../src/app/status-json.ts";
import { statusPageRoute } from "../../src/app/status-page.ts";
import { makePlan } from "../../src/model/planner.ts";
import type { SyncReport } from "../../src/model/report.ts";
import { testContext } from "../model/context.ts";
import { type RawService, snapshotOf } from "../model/random.ts";

export interface PageServer {
  readonly url: string;
  readonly status: ProxyStatus;
  close(): void;
}

/** `count` Services named `shop/svc-N`: every third has a node port, every seventh a load balancer, every eleventh no endpoint. */
export function services(count: number): readonly RawService[] {
  return Array.from({ length: count }, (_, i) => {
    const ip = `10.96.${(i + 1) >> 8}.${(i + 1) & 255}`;
    const exposed = i % 3 === 0;
    const balanced = i % 7 === 0;
    const address = `10.244.${1 + (i >> 7)}.${1 + (i & 127)}`;
    const endpoint = (node: number, ready: boolean) => ({
      addresses: [node === 1 ? address : `10.244.${101 + (i >> 7)}.${1 + (i & 127)}`],
      nodeName: `node-${node}`,
      conditions: { ready },
    });
    return {
      service: {
        metadata: { namespace: "shop", name: `svc-${i}`, uid: `${i}` },
        spec: {
          type: balanced ? "LoadBalancer" : exposed ? "NodePort" : "ClusterIP",
          clusterIP: ip,
          clusterIPs: [ip],
          ports: [{ name: "http", port: 80, protocol: "TCP", ...(exposed || balanced ? { nodePort: 30000 + i } : {}) }],
        },
        status: { loadBalancer: { ingress: balanced ? [{ ip: `203.0.${113 + (i >> 8)}.${i & 255}` }] : [] } },
      },
      slices: [
        {
          metadata: { namespace: "shop", name: `svc-${i}-a`, labels: { "kubernetes.io/service-name": `svc-${i}` } },
          addressType: "IPv4",
          ports: [{ name: "http", port: 8080, protocol: "TCP" }],
          endpoints: i % 11 === 10 ? [] : [endpoint(1, true), endpoint(2, i % 5 !== 4)],
        },
      ],
    };
  });
}

const times = { plan: 1, desired: 2, observe: 0, diff: 1, apply: 20 };

export function startPage(raw: readonly RawService[]): PageServer {
  const now = Date.now();
  const status = new ProxyStatus("node-1", ["IPv4", "IPv6"], 30_000, now - 3_600_000);
  status.nodeKnown = true;
  const snapshot = snapshotOf(raw);
  for (const family of ["IPv4", "IPv6"] as const) {
    const context = testContext("nftables", family);
    for (let i = 60; i >= 0; i--) {
      const took = 20 + ((i * 37) % 50) + (family === "IPv6" ? 10 : 0) + (i === 30 ? 300 : 0);
      const finishedAt = now - i * 14_000 - 2_000;
      const report: SyncReport = {
        family,
        mode: "nftables",
        startedAt: finishedAt - took,
        finishedAt,
        full: i === 60,
        ok: true,
        error: undefined,
        stages: times,
        counts: {},
        triggers: [],
        noLocalEndpoints: { internal: 0, external: 0 },
        quarantined: [],
      };
      status.synced(report, makePlan(i === 0 ? snapshot : snapshotOf([]), context), context);
    }
  }
  for (let i = 0; i < 40; i++) status.history.changed(i % 3, (i * 7) % 11, now - (39 - i) * 20_000);
  const page = statusPageRoute(status);
  const facts = () =>
    statusJson({
      status,
      mode: "nftables",
      version: "v1.37.0",
      commit: "test",
      runtime: "bun",
      pid: 1,
      source: "https://10.0.0.1:6443",
      lastContact: Date.now() - 1_500,
      now: Date.now(),
    });
  const server = serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url);
      return (
        page(pathname, request) ??
        statusJsonRoute(pathname, request, facts) ??
        new Response(null, { status: pathname === "/favicon.ico" ? 204 : 404 })
      );
    },
  });
  return { url: `http://127.0.0.1:${server.port}/`, status, close: () => void server.stop(true) };
}
