/** The fixture itself: selectors, paging, watches and faults behave as a real API server's. */
import { afterEach, expect, test } from "bun:test";
import { makeAuthority, serverCertificate } from "./certificates.ts";
import type { ApiObject } from "./object-store.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "./server.ts";

let servers: ApiServer[] = [];

function start(options: ApiServerOptions = {}): ApiServer {
  const server = startApiServer(options);
  servers.push(server);
  return server;
}

afterEach(async () => {
  for (const server of servers) await server.stop();
  servers = [];
});

const service = (name: string, parts: { labels?: Record<string, string>; clusterIP?: string } = {}): ApiObject => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "a", ...(parts.labels ? { labels: parts.labels } : {}) },
  spec: { clusterIP: parts.clusterIP ?? "10.0.0.1", ports: [{ port: 80 }] },
});

interface ListAnswer {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly { readonly metadata: { readonly name: string } }[];
}

interface WatchLine {
  readonly type: string;
  readonly object: { readonly metadata: Record<string, unknown>; readonly code?: number };
}

async function list(server: ApiServer, query: string): Promise<ListAnswer> {
  return (await (await fetch(`${server.url}/api/v1/services?${query}`)).json()) as ListAnswer;
}

/** Opens a watch and gives its lines one by one; undefined at the end. */
async function watch(server: ApiServer, query: string): Promise<() => Promise<WatchLine | undefined>> {
  const response = await fetch(`${server.url}/api/v1/services?watch=1&${query}`);
  const reader = response.body?.getReader();
  let held = "";
  return async () => {
    held = held.trimStart();
    while (!held.includes("\n")) {
      const chunk = await reader?.read();
      if (chunk === undefined || chunk.done) return undefined;
      held = (held + Buffer.from(chunk.value).toString()).trimStart();
    }
    const end = held.indexOf("\n");
    const line = JSON.parse(held.slice(0, end)) as WatchLine;
    held = held.slice(end + 1);
    return line;
  };
}

test("lists by label and field selector", async () => {
  const server = start();
  server.apply([
    service("one"),
    service("other", { labels: { "x/y": "z" } }),
    service("headless", { clusterIP: "None" }),
  ]);
  const names = async (query: string) => (await list(server, query)).items.map((item) => item.metadata.name);
  expect(await names("")).toEqual(["headless", "one", "other"]);
  expect(await names("labelSelector=!x/y&fieldSelector=spec.clusterIP!%3DNone")).toEqual(["one"]);
  expect(await names("labelSelector=x/y%3Dz")).toEqual(["other"]);
  expect((await fetch(`${server.url}/api/v1/services?fieldSelector=spec.unknown%3D1`)).status).toBe(400);
});

test("pages with limit and continue", async () => {
  const server = start();
  for (let i = 0; i < 5; i++) server.apply(service(`s${i}`));
  const first = await list(server, "limit=2");
  const second = await list(server, `limit=2&continue=${first.metadata.continue}`);
  const third = await list(server, `limit=2&continue=${second.metadata.continue}`);
  expect([first, second, third].map((page) => page.items.map((item) => item.metadata.name))).toEqual([
    ["s0", "s1"],
    ["s2", "s3"],
    ["s4"],
  ]);
  expect(third.metadata.continue).toBeUndefined();
  expect(third.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
});

test("watches: WatchList, bookmarks, and DELETED or ADDED when a selector stops or starts to match", async () => {
  const server = start({ bookmarkMs: 20 });
  server.apply(service("one"));
  const next = await watch(server, "sendInitialEvents=true&allowWatchBookmarks=true&labelSelector=!skip");
  expect((await next())?.type).toBe("ADDED");
  const end = await next();
  expect(end?.type).toBe("BOOKMARK");
  expect(end?.object.metadata["annotations"]).toEqual({ "k8s.io/initial-events-end": "true" });
  const change = async () => {
    for (;;) {
      const line = await next();
      if (line?.type !== "BOOKMARK") return line?.type;
    }
  };
  server.apply(service("one", { labels: { skip: "" } }));
  expect(await change()).toBe("DELETED");
  server.apply(service("one"));
  expect(await change()).toBe("ADDED");
  server.apply(service("one", { clusterIP: "10.0.0.2" }));
  expect(await change()).toBe("MODIFIED");
  server.remove("Service", "a", "one");
  expect(await change()).toBe("DELETED");
  expect((await next())?.type).toBe("BOOKMARK");
});

test("resumes from a version, and answers 410 once history is compacted", async () => {
  const server = start();
  server.apply(service("one"));
  const version = (await list(server, "")).metadata.resourceVersion;
  server.apply(service("two"));
  const next = await watch(server, `resourceVersion=${version}`);
  expect((await next())?.object.metadata["name"]).toBe("two");
  server.store.compact();
  const late = await watch(server, `resourceVersion=${version}`);
  expect((await late())?.object.code).toBe(410);
  expect(await late()).toBeUndefined();
});

test("faults: status, reset, half a line, end, freeze", async () => {
  const server = start();
  server.apply(service("one"));
  server.fault({ fault: { kind: "status", code: 429, retryAfter: 3 }, verb: "list" });
  const busy = await fetch(`${server.url}/api/v1/services`);
  expect([busy.status, busy.headers.get("retry-after")]).toEqual([429, "3"]);
  expect((await fetch(`${server.url}/api/v1/services`)).status).toBe(200);
  server.fault({ fault: { kind: "reset" } });
  await expect(fetch(`${server.url}/api/v1/services`).then((response) => response.text())).rejects.toThrow();
  const next = await watch(server, `resourceVersion=${server.store.version}`);
  server.liveFault("end");
  expect(await next()).toBeUndefined();
  const cut = await watch(server, `resourceVersion=${server.store.version}`);
  server.liveFault("reset");
  await expect(cut()).rejects.toThrow();
  server.faults.freeze();
  await expect(fetch(`${server.url}/healthz2`, { signal: AbortSignal.timeout(100) })).rejects.toThrow();
});

test("TLS with client certificates, tokens, 401 and 403", async () => {
  const authority = makeAuthority();
  const server = start({ tls: serverCertificate(authority), tokens: ["t1"] });
  const get = (token: string, ca = authority.cert) =>
    fetch(`${server.url}/api/v1/services`, { headers: { authorization: `Bearer ${token}` }, tls: { ca } });
  expect((await get("t1")).status).toBe(200);
  expect((await get("t2")).status).toBe(401);
  server.forbid("list", "services");
  expect((await get("t1")).status).toBe(403);
  await expect(get("t1", makeAuthority("other").cert)).rejects.toThrow();
});

test("the process form: kubeconfig, objects, control socket", async () => {
  const directory = (await import("node:fs")).mkdtempSync("/tmp/kp-api-main-");
  const objects = `${directory}/objects.yaml`;
  await Bun.write(objects, `${JSON.stringify(service("one"))}\n---\n${JSON.stringify(service("two"))}\n`);
  const socket = `${directory}/control`;
  const child = Bun.spawn(
    [process.execPath, `${import.meta.dir}/main.ts`, "--objects", objects, "--control-socket", socket].concat([
      "--kubeconfig-out",
      `${directory}/kubeconfig`,
    ]),
    { stdout: "pipe", stderr: "inherit" },
  );
  try {
    const url = Buffer.from((await child.stdout.getReader().read()).value ?? [])
      .toString()
      .trim();
    expect(JSON.parse(await Bun.file(`${directory}/kubeconfig`).text()).clusters[0].cluster.server).toBe(url);
    const post = (action: string, body: unknown) =>
      fetch(`http://x/_control/${action}`, { unix: socket, method: "POST", body: JSON.stringify(body) });
    expect((await post("apply", service("three"))).status).toBe(200);
    expect((await post("delete", { kind: "Service", namespace: "a", name: "one" })).status).toBe(200);
    const answer = (await (await fetch(`${url}/api/v1/services`)).json()) as ListAnswer;
    expect(answer.items.map((item) => item.metadata.name)).toEqual(["three", "two"]);
    await post("fault", { action: "next", fault: { kind: "status", code: 500 } });
    expect((await fetch(`${url}/api/v1/services`)).status).toBe(500);
    const requests = (await (await fetch(`http://x/_control/requests`, { unix: socket })).json()) as unknown[];
    expect(requests.length).toBe(2);
  } finally {
    child.kill();
    await child.exited;
  }
});
