/** Reflectors against the API server fixture with every fault it knows: the store ends up right, and nothing goes quiet. */
import { afterEach, describe, expect, setSystemTime, test } from "bun:test";
import { anonymousAccess } from "../../src/kube/cluster-access.ts";
import { type InformerOptions, startInformers } from "../../src/kube/informers.ts";
import { ObjectStore, type StoreChange } from "../../src/kube/object-store.ts";
import { Transport } from "../../src/kube/transport.ts";
import type { WatchTimings } from "../../src/kube/watch-session.ts";
import type { LiveFault, RequestFault } from "../api/faults.ts";
import type { ApiObject } from "../api/object-store.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../api/server.ts";
import { recordingLog, until } from "./recorder.ts";

const quick: WatchTimings = { quiet: 150, probe: 1_600, grace: 100, initialQuiet: 300, lifetime: 60_000 };
const lazy: WatchTimings = { ...quick, quiet: 60_000 };

let stops: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  setSystemTime();
  for (const stop of stops.reverse()) await stop();
  stops = [];
});

function start(
  options: ApiServerOptions & { timings?: WatchTimings; serviceCIDRs?: boolean; objects?: readonly ApiObject[] } = {},
) {
  const server = startApiServer({ objects: [service("one"), slice("one-a", "one"), node()], ...options });
  stops.push(() => server.stop());
  return { server, ...follow(server, options) };
}

function follow(server: ApiServer, options: { timings?: WatchTimings; serviceCIDRs?: boolean } = {}) {
  const recorder = recordingLog();
  const transport = new Transport(anonymousAccess(server.url, "test"), {
    log: recorder.log,
    userAgent: "kube-proxy-test",
    qps: -1,
    burst: 10,
  });
  const store = new ObjectStore("n1");
  const stop = new AbortController();
  const all: InformerOptions = {
    transport,
    store,
    nodeName: "n1",
    serviceCIDRs: options.serviceCIDRs ?? false,
    log: recorder.log,
    signal: stop.signal,
    timings: options.timings ?? lazy,
    backOff: { first: 5, most: 20 },
  };
  const source = startInformers(all);
  stops.push(() => {
    stop.abort();
    return source.done;
  });
  const names = () => [...store.snapshot().services.keys()].sort().join(" ");
  return { transport, store, source, names, ...recorder };
}

function service(name: string, parts: { labels?: Record<string, string>; clusterIP?: unknown } = {}): ApiObject {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace: "ns", labels: parts.labels ?? {} },
    spec: { type: "ClusterIP", clusterIP: parts.clusterIP ?? "10.0.0.1", ports: [{ port: 80, protocol: "TCP" }] },
  };
}

function slice(name: string, of: string, addresses: readonly string[] = ["10.1.0.1"], labels = {}): ApiObject {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, namespace: "ns", labels: { "kubernetes.io/service-name": of, ...labels } },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
  };
}

function node(labels: Record<string, string> = {}, heartbeat = "0"): ApiObject {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n1", labels },
    spec: {},
    status: {
      addresses: [{ type: "InternalIP", address: "192.0.2.1" }],
      conditions: [{ type: "Ready", lastHeartbeatTime: heartbeat }],
    },
  };
}

describe("first lists", () => {
  test.each([
    ["WatchList", true],
    ["paged LIST where WatchList is refused", false],
    ["paged LIST where WatchList is not known", "ignored"],
  ] as const)("%s", async (_name, watchList) => {
    const objects = Array.from({ length: 4203 }, (_, i) => service(`s${i}`));
    const { server, store, source } = start({
      watchList,
      objects: [...objects, slice("s7-a", "s7"), node()],
      timings: quick,
    });
    await source.ready;
    const snapshot = store.snapshot();
    expect(snapshot.services.size).toBe(4203);
    expect(snapshot.services.get("ns/s7")?.slices.map((one) => one.name)).toEqual(["s7-a"]);
    expect(snapshot.node?.addresses).toEqual(["192.0.2.1"]);
    const lists = server.requests.filter((one) => one.verb === "list" && one.resource === "services");
    expect(lists.map((one) => one.query["limit"])).toEqual(watchList === true ? [] : ["2000", "2000", "2000"]);
    server.apply(service("later"));
    await until("a change after the list", () => store.snapshot().services.size === 4204);
  });

  test("selectors are those that kube-proxy sends", async () => {
    const { server, source } = start({ serviceCIDRs: true });
    await source.ready;
    const sent = Object.fromEntries(
      server.requests.map((one) => [one.resource, [one.query["labelSelector"], one.query["fieldSelector"]]]),
    );
    expect(sent).toEqual({
      services: ["!service.kubernetes.io/service-proxy-name", "spec.clusterIP!=None"],
      endpointslices: ["!service.kubernetes.io/headless", undefined],
      nodes: [undefined, "metadata.name=n1"],
      servicecidrs: [undefined, undefined],
    } as unknown as typeof sent);
  });

  test("not ready before every list is complete, whatever order they come in", async () => {
    const server = startApiServer({ objects: [service("one"), node()] });
    stops.push(() => server.stop());
    server.fault({ fault: { kind: "status", code: 503 }, resource: "endpointslices", times: 4 });
    const { source, store } = follow(server);
    let ready = false;
    void source.ready.then(() => {
      ready = true;
    });
    await until("services listed", () => store.services.rows.size === 1);
    await until("slices refused", () => server.requests.filter((one) => one.status === 503).length >= 2);
    expect(ready).toBe(false);
    await source.ready;
  });

  test("a cluster without ServiceCIDRs has none, and is ready", async () => {
    const server = startApiServer({ objects: [node()] });
    stops.push(() => server.stop());
    server.fault({ fault: { kind: "status", code: 404 }, resource: "servicecidrs", times: 1000 });
    const { source, store } = follow(server, { serviceCIDRs: true });
    await source.ready;
    expect(store.snapshot().serviceCIDRs).toEqual([]);
  });

  test("ServiceCIDRs of all objects, canonical and sorted", async () => {
    const cidr = (name: string, cidrs: string[]): ApiObject => ({
      apiVersion: "networking.k8s.io/v1",
      kind: "ServiceCIDR",
      metadata: { name },
      spec: { cidrs },
    });
    const { server, store, source } = start({
      serviceCIDRs: true,
      objects: [cidr("b", ["10.96.0.0/12", "FD00::/108"])],
    });
    await source.ready;
    server.apply(cidr("a", ["10.0.0.0/24"]));
    await until("the second", () => store.snapshot().serviceCIDRs.length === 3);
    expect(store.snapshot().serviceCIDRs).toEqual(["10.0.0.0/24", "10.96.0.0/12", "fd00::/108"]);
  });
});

describe("changes", () => {
  test("labels that hide an object remove it, and bring it back", async () => {
    const { server, names, source } = start();
    await source.ready;
    expect(names()).toBe("ns/one");
    server.apply(service("one", { labels: { "service.kubernetes.io/service-proxy-name": "other" } }));
    await until("hidden", () => names() === "");
    server.apply(service("one"));
    await until("back", () => names() === "ns/one");
    server.apply(service("one", { clusterIP: "None" }));
    await until("headless", () => names() === "");
  });

  test("heartbeats and no-op updates are no changes; topology labels are", async () => {
    const { server, store, source } = start();
    await source.ready;
    await Bun.sleep(0);
    const before = store.snapshot();
    const heard: StoreChange[] = [];
    store.onChange((change) => heard.push(change));
    for (let i = 1; i <= 100; i++) server.apply(node({}, String(i)));
    server.apply(node({ "topology.kubernetes.io/zone": "b" }, "101"));
    await until("the zone", () => store.node?.zone === "b");
    expect(heard).toEqual([{ objects: false, node: true }]);
    server.apply(service("one"));
    server.apply(service("two"));
    server.apply(slice("one-a", "one"));
    server.apply(slice("two-a", "two"));
    await until("the new ones", () => store.snapshot().services.get("ns/two")?.slices.length === 1);
    expect(heard.slice(1).every((change) => !change.node)).toBe(true);
    expect(store.snapshot().services.get("ns/one")).toBe(before.services.get("ns/one") as never);
  });

  test("malformed objects are named once and cost nobody else", async () => {
    const bad: ApiObject = {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "bad", namespace: "ns" },
      spec: null,
    };
    const worse = { ...service("worse"), spec: { clusterIP: "10.0.0.9", ports: [{ port: 0 }, null, { port: 81 }] } };
    const { server, store, source, lines, names } = start({ objects: [bad, worse, service("one"), node()] });
    await source.ready;
    expect(names()).toBe("ns/one ns/worse");
    server.apply({ ...slice("x", "one"), endpoints: null, ports: "no" });
    server.apply({ ...slice("y", "one"), addressType: "IPv9" });
    server.apply(service(`long${"g".repeat(300)}`));
    server.apply(worse);
    server.apply(service("two"));
    await until("two", () => store.services.rows.has("ns/two"));
    const odd = lines.filter((line) => line.fields["object"] === "ns/worse");
    expect(odd.length).toBe(2); // two bad ports, each told once although the object came twice
  });
});

describe("faults", () => {
  const requestFaults: readonly RequestFault[] = [
    { kind: "status", code: 410 },
    { kind: "status", code: 429, retryAfter: 0.05 },
    { kind: "status", code: 500 },
    { kind: "gone-event" },
    { kind: "reset" },
    { kind: "half-line" },
    { kind: "garbage" },
    { kind: "content-type" },
    { kind: "silent" },
  ];
  test.each(requestFaults.map((fault) => [JSON.stringify(fault), fault] as const))(
    "the next watches meet %s",
    async (_name, fault) => {
      const { server, names, source } = start({ timings: quick });
      await source.ready;
      server.apply(service("gone"));
      await until("gone is there", () => names() === "ns/gone ns/one");
      server.fault({ fault, verb: "watch", times: 4 });
      server.liveFault("end");
      server.remove("Service", "ns", "gone");
      server.apply(service("two"));
      await until("right again", () => names() === "ns/one ns/two");
    },
  );

  test.each(["gone", "reset", "half-line", "garbage", "end", "silent"] as readonly LiveFault[])(
    "open watches meet %s, objects come and go meanwhile",
    async (kind) => {
      const { server, names, source } = start({ timings: quick });
      await source.ready;
      server.apply(service("gone"));
      await until("gone is there", () => names() === "ns/gone ns/one");
      server.liveFault(kind);
      server.remove("Service", "ns", "gone");
      server.apply(service("two"));
      await until("right again", () => names() === "ns/one ns/two");
    },
  );

  test("lost history: what was deleted while away goes, what stayed keeps its identity", async () => {
    const { server, store, names, source } = start();
    server.apply([service("gone"), service("stays")]);
    await source.ready;
    await until("all there", () => names() === "ns/gone ns/one ns/stays");
    const before = store.snapshot().services.get("ns/stays");
    server.fault({ fault: { kind: "status", code: 500 }, verb: "watch", resource: "services", times: 2 });
    server.liveFault("end", "services");
    server.remove("Service", "ns", "gone");
    server.store.compact();
    await until("right again", () => names() === "ns/one ns/stays");
    expect(store.snapshot().services.get("ns/stays")).toBe(before as never);
  });

  test("410 for ever is not a tight loop", async () => {
    const { server, source } = start();
    await source.ready;
    server.fault({ fault: { kind: "gone-event" }, verb: "watch", resource: "services", times: 1_000_000 });
    server.liveFault("end", "services");
    await Bun.sleep(300);
    // back-off of 5–20 ms ± 50 %, two requests a round: far from the thousands of a tight loop
    expect(server.requests.filter((one) => one.resource === "services").length).toBeLessThan(150);
  });

  test("Retry-After is honoured", async () => {
    const { server, source, lines } = start();
    await source.ready;
    server.fault({ fault: { kind: "status", code: 429, retryAfter: 7 }, verb: "watch", resource: "services" });
    server.liveFault("end", "services");
    await until("the complaint", () => lines.some((line) => line.level === "warn"));
    const told = lines.find((line) => line.level === "warn");
    expect(told?.fields["error"]).toContain("429");
    expect(told?.fields["retryInMs"]).toBe(7000);
  });

  test("server restart: objects stay meanwhile and are right after", async () => {
    const { server, names, source } = start();
    await source.ready;
    await server.stop();
    server.apply(service("two"));
    await Bun.sleep(50);
    expect(names()).toBe("ns/one");
    await server.restart();
    await until("right again", () => names() === "ns/one ns/two");
  });

  test("a server that accepts and says nothing is noticed by the probe, and replaced", async () => {
    const { server, names, source, text } = start({ timings: quick });
    await source.ready;
    server.faults.freeze();
    server.liveFault("silent");
    await until("noticed", () => text().includes("no answer in time"));
    server.apply(service("two"));
    server.faults.thaw();
    await until("right again", () => names() === "ns/one ns/two");
  });

  test("a quiet watch with a live server is left alone", async () => {
    const { server, source } = start({ timings: { ...quick, quiet: 40 } });
    await source.ready;
    const watches = () => server.requests.filter((one) => one.query["allowWatchBookmarks"] === "true").length;
    const before = watches();
    const probes = () => server.requests.filter((one) => one.query["timeoutSeconds"] === "1").length;
    await until("probed", () => probes() >= 9);
    expect(watches()).toBe(before);
  });

  test("clock jumps, forth and back, change nothing", async () => {
    const { server, names, source } = start({ timings: { ...quick, quiet: 40 } });
    await source.ready;
    for (const [i, time] of ["2040-01-01", "1999-01-01"].entries()) {
      setSystemTime(new Date(time));
      await Bun.sleep(60);
      server.apply(service(`s${i}`));
      await until("the change", () => names().includes(`ns/s${i}`));
    }
    setSystemTime();
    expect(server.requests.filter((one) => one.query["sendInitialEvents"] === "true").length).toBe(3);
  });

  test("403 names verb, resource and what to do; it heals when the right is given", async () => {
    const server = startApiServer({ objects: [service("one"), node()] });
    stops.push(() => server.stop());
    server.forbid("watch", "endpointslices");
    server.forbid("list", "endpointslices");
    const { source, text } = follow(server);
    await until("told", () => text().includes("403"));
    expect(text()).toContain("cannot watch endpointslices.discovery.k8s.io");
    expect(text()).toContain("system:node-proxier");
    server.allow("watch", "endpointslices");
    await source.ready;
  });
});

test("bookmarks move the version on, so a resume after compaction needs no list", async () => {
  const { server, source, store } = start({ bookmarkMs: 20 });
  await source.ready;
  server.setNode("another");
  server.store.compact();
  await Bun.sleep(80);
  const lists = server.requests.length;
  server.liveFault("end", "services");
  await until("resumed", () => server.requests.length > lists);
  expect(server.requests.at(-1)?.query["sendInitialEvents"]).toBeUndefined();
  expect(store.services.rows.size).toBe(1);
});

test("stops at once, leaves no watch open", async () => {
  const { server, source } = start();
  await source.ready;
  expect(server.openWatches).toBe(3);
  await stops.pop()?.();
  await until("all closed", () => server.openWatches === 0);
});
