/** The metrics server over HTTP on loopback, compared with what kube-proxy answered. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Listener, listen } from "../../src/app/listen.ts";
import { createProfiler } from "../../src/metrics/profiling.ts";
import { createMetrics } from "../../src/metrics/registry.ts";
import { type MetricsServerOptions, metricsHandler } from "../../src/metrics/server.ts";
import { recorded } from "../health/recorded.ts";
import { parseExposition } from "./exposition.ts";

let verbosity = "2";
const options: MetricsServerOptions = {
  metrics: createMetrics({
    mode: "iptables",
    families: ["IPv4"],
    gates: [],
    build: {},
    own: {},
    sources: [],
  }),
  config: () => ({ kind: "KubeProxyConfiguration", mode: "iptables" }),
  flags: () => new Map([["v", verbosity]]),
  status: () => ({ startedAt: 0, now: 1000, version: "1.37.0", runtime: "1.4.5", lines: [["Mode", "iptables"]] }),
  processStart: 1796042911.97,
  setVerbosity: (text) => {
    if (!/^\d+$/.test(text)) return "not a whole number";
    verbosity = text;
    return undefined;
  },
  profiler: createProfiler(),
  routes: (path) => (path === "/" ? new Response("status page") : undefined),
};
let server: Listener;
let bare: Listener;

beforeAll(() => {
  server = listen("127.0.0.1", 0, metricsHandler(options));
  const { routes: _, ...without } = options;
  bare = listen("::1", 0, metricsHandler({ ...without, profiler: undefined }));
});
afterAll(() => {
  server.close();
  bare.close();
});

const ask = (path: string, init?: BunFetchRequestInit) =>
  fetch(`http://127.0.0.1:${server.port}${path}`, { redirect: "manual", ...init });
const askBare = (path: string) => fetch(`http://[::1]:${bare.port}${path}`);

describe("like kube-proxy", () => {
  test.each([
    ["/healthz", "10249_healthz"],
    ["/proxyMode", "10249_proxyMode"],
    ["/livez", "10249_livez"],
    ["/readyz", "10249_readyz"],
    ["/nope", "10249_nope"],
    ["/debug/flags/v", "10249_debug_flags_v"],
  ])("%s, to the letter", async (path, name) => {
    const theirs = recorded(name);
    const ours = await ask(path);
    // The recording ends some bodies with a newline that Content-Length does not count.
    const body = theirs.body.slice(0, Number(theirs.headers.get("Content-Length")));
    expect([ours.status, await ours.text()]).toEqual([theirs.status, body]);
    for (const header of ["Content-Type", "X-Content-Type-Options"]) {
      expect([header, ours.headers.get(header)]).toEqual([header, theirs.headers.get(header) ?? null]);
    }
  });

  test.each([
    ["/configz", "10249_configz"],
    ["/flagz", "10249_flagz"],
    ["/statusz", "10249_statusz"],
    ["/metrics/slis", "10249_metrics_slis"],
  ])("%s, in status and headers", async (path, name) => {
    const theirs = recorded(name);
    const ours = await ask(path);
    expect(ours.status).toBe(theirs.status);
    for (const header of ["Content-Type", "X-Content-Type-Options", "Process-Start-Time-Unix"]) {
      expect([header, ours.headers.get(header)]).toEqual([header, theirs.headers.get(header) ?? null]);
    }
  });
});

test("configz wraps the configuration", async () => {
  expect(await (await ask("/configz")).json()).toEqual({
    "kubeproxy.config.k8s.io": { kind: "KubeProxyConfiguration", mode: "iptables" },
  });
});

test("statusz lists the paths there are", async () => {
  const paths = (await (await ask("/statusz")).text()).split("\n").find((line) => line.startsWith("Paths: "));
  expect(paths).toBe("Paths: /configz /debug/flags/v /debug/pprof/ /flagz /healthz /metrics /metrics/slis /proxyMode");
  for (const path of (paths ?? "")
    .slice(7)
    .split(" ")
    .filter((one) => one !== "/debug/flags/v")) {
    expect([path, (await ask(path)).status]).toEqual([path, 200]);
  }
});

describe("/metrics", () => {
  test.each([
    "",
    "text/plain",
    "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "application/vnd.google.protobuf",
  ])("is text 0.0.4 for Accept %p", async (accept) => {
    const answer = await ask("/metrics", { headers: { accept } });
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    expect(parseExposition(await answer.text()).size).toBeGreaterThan(100);
  });

  test.each([
    ["gzip", "gzip"],
    ["deflate, gzip;q=0.5", "gzip"],
    ["gzip;q=0", null],
    ["gzip;q=0.0, identity", null],
    ["identity", null],
    ["xgzip", null],
  ])("Accept-Encoding %p gives %p", async (accept, encoding) => {
    const answer = await ask("/metrics", { headers: { "accept-encoding": accept }, decompress: false });
    expect(answer.headers.get("content-encoding")).toBe(encoding);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const text = new TextDecoder().decode(encoding ? Bun.gunzipSync(bytes) : bytes);
    expect(text).toStartWith("# HELP ");
  });

  test("counts pings in slis", async () => {
    const count = async () =>
      parseExposition(await (await ask("/metrics/slis")).text()).get(
        'kubernetes_healthchecks_total{name="ping",status="success",type="healthz"}',
      ) ?? 0;
    const before = await count();
    expect(await count()).toBe(before + 1);
  });
});

describe("verbosity", () => {
  const put = (body: string) => ask("/debug/flags/v", { method: "PUT", body });
  test("is set by PUT", async () => {
    const answer = await put("4\n");
    expect([answer.status, await answer.text()]).toEqual([200, "successfully set klog.logging.verbosity to 4"]);
    expect(verbosity).toBe("4");
  });
  test.each(["", "x", "-1", "<script>", "9".repeat(3000)])("refuses %p", async (body) => {
    const answer = await put(body);
    expect(answer.status).toBe(400);
    expect((await answer.text()).split("\n")).toHaveLength(2);
    expect(verbosity).toBe("4");
  });
  test.each(["GET", "POST", "DELETE"])("%s is 406 as recorded", async (method) =>
    expect((await ask("/debug/flags/v", { method })).status).toBe(406),
  );
});

describe("methods", () => {
  test.each(["/metrics", "/healthz", "/configz", "/proxyMode", "/debug/pprof/"])("%s", async (path) => {
    const post = await ask(path, { method: "POST", body: "x" });
    expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    const head = await ask(path, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
  });
});

test("further routes come first, and are optional", async () => {
  expect(await (await ask("/")).text()).toBe("status page");
  expect((await askBare("/")).status).toBe(404);
  expect((await askBare("/healthz")).status).toBe(200);
});

describe("profiling", () => {
  test("is absent unless enabled", async () => expect((await askBare("/debug/pprof/")).status).toBe(404));

  test("has an index that says what it is", async () => {
    expect(await (await ask("/debug/pprof/")).text()).toContain("not Go pprof files");
    expect((await ask("/debug/pprof")).headers.get("location")).toBe("/debug/pprof/");
    expect((await ask("/debug/pprof/goroutine")).status).toBe(404);
    expect((await (await ask("/debug/pprof/cmdline")).text()).split("\0")[0]).toContain("bun");
  });

  test("takes a CPU profile, one at a time", async () => {
    const first = ask("/debug/pprof/profile?seconds=1");
    const second = await ask("/debug/pprof/profile?seconds=1");
    const answers = [second.status, (await first).status].sort();
    expect(answers).toEqual([200, 409]);
    // An idle second has no samples, nor has one in which the sampler got no turn: work until there are some.
    let profile = { startTime: 0, endTime: 0, samples: [] as unknown[] };
    for (let tries = 0; tries < 10 && profile.samples.length === 0; tries++) {
      const busy = ask("/debug/pprof/profile?seconds=1");
      for (let i = 0, text = ""; i < 20; i++) {
        for (let j = 0; j < 5_000; j++) text = JSON.stringify({ i, j, length: text.length });
        await Bun.sleep(20);
      }
      profile = JSON.parse(await (await busy).text());
    }
    expect(Object.keys(profile).sort()).toEqual(["endTime", "nodes", "samples", "startTime", "timeDeltas"]);
    expect(profile.endTime).toBeGreaterThan(profile.startTime);
  });

  test.each(["0", "241", "1.5", "x", "-3"])("refuses seconds=%s", async (seconds) =>
    expect((await ask(`/debug/pprof/profile?seconds=${seconds}`)).status).toBe(400),
  );

  test("gives no heap snapshot, which holds credentials, to other hosts", async () => {
    const handler = metricsHandler(options);
    const far = { local: false, extend: () => {} };
    const answer = await handler(new Request("http://x/debug/pprof/heap"), far);
    expect([answer.status, await answer.text()]).toEqual([
      403,
      "a heap snapshot holds the API credentials: ask over loopback\n",
    ]);
    expect((await handler(new Request("http://x/debug/pprof/"), far)).status).toBe(200);
  });

  test("takes a heap snapshot", async () => {
    const answer = await ask("/debug/pprof/heap");
    expect(answer.headers.get("content-disposition")).toContain("heap.heapsnapshot");
    expect(Object.keys(JSON.parse(await answer.text()).snapshot.meta)).toContain("node_fields");
  });
});

test("HTTP/1.0 without a Host", async () => {
  const done = Promise.withResolvers<string>();
  let text = "";
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: server.port,
    socket: {
      data: (self, data) => {
        text += data.toString();
        if (text.includes("iptables")) self.end();
      },
      close: () => done.resolve(text),
    },
  });
  socket.write("GET /proxyMode?x=1 HTTP/1.0\r\n\r\n");
  expect((await done.promise).split("\r\n")[0]).toBe("HTTP/1.1 200 OK");
});
