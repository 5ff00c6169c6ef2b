/** Real connections through the listeners of node ports on localhost. */
import { afterEach, describe, expect, test } from "bun:test";
import { connect, createServer, type Server } from "node:net";
import { LocalhostNodePorts } from "../../src/app/localhost-node-ports.ts";
import type { Log, LogFields } from "../../src/model/log.ts";
import type { Endpoint, Plan, PortPlan } from "../../src/model/plan.ts";
import { testContext } from "../model/context.ts";

const lines: (readonly [string, LogFields | undefined])[] = [];
const log: Log = {
  error: (message, fields) => void lines.push([message, fields]),
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
};

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
  lines.length = 0;
});

/** Answers everything it reads with its name in front, once the client has said all. */
async function pod(name: string, ip = "127.0.0.1"): Promise<Endpoint> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const chunks: Buffer[] = [];
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("end", () => socket.end(`${name}:${Buffer.concat(chunks).toString()}`));
    socket.on("error", () => undefined);
  });
  const port = await listening(server, ip);
  closers.push(() => server.close());
  return { ip, port, local: true, ready: true, serving: true, terminating: false };
}

function listening(server: Server, host: string, port = 0): Promise<number> {
  return new Promise((resolve, reject) => {
    server.on("error", reject);
    server.listen({ host, port }, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}

/** A port that is free on 127.0.0.1 just now. */
async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listening(server, "127.0.0.1");
  await new Promise((resolve) => server.close(resolve));
  return port;
}

function planOf(...ports: readonly Partial<PortPlan>[]): Plan {
  const list = ports.map((port) => ({
    name: "ns/svc:p",
    protocol: "tcp",
    affinitySeconds: 0,
    localEndpoints: [],
    external: "cluster",
    ...port,
  }));
  return { services: new Map([["ns/svc", { key: "ns/svc", ports: list }]]) } as unknown as Plan;
}

function start(connectMs = 500): LocalhostNodePorts {
  const proxy = new LocalhostNodePorts({ context: testContext("nftables"), log, connectMs });
  closers.push(() => proxy.close());
  return proxy;
}

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 500 && !condition(); i++) await Bun.sleep(5);
  expect(condition()).toBe(true);
}

/** What comes back for a text; `refused` or `reset` when the connection is. */
function ask(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
    let answer = "";
    socket.on("connect", () => socket.end(text));
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString();
    });
    socket.on("end", () => resolve(answer));
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED" ? "refused" : "reset"));
    socket.on("close", () => resolve(answer === "" ? "closed" : answer));
  });
}

describe("node ports on localhost", () => {
  test("a connection reaches an endpoint, half-closed, and large answers come whole", async () => {
    const nodePort = await freePort();
    const proxy = start();
    proxy.follow(planOf({ nodePort, clusterEndpoints: [await pod("a")] }));
    await until(() => proxy.listeners === 1);
    expect(await ask(nodePort, "hello")).toBe("a:hello");
    const large = "x".repeat(3_000_000);
    expect((await ask(nodePort, large)).length).toBe(large.length + 2);
  });

  test("an endpoint that refuses is followed by another", async () => {
    const nodePort = await freePort();
    const good = await pod("good");
    const dead = { ...good, port: await freePort() };
    const proxy = start();
    proxy.follow(planOf({ nodePort, clusterEndpoints: [dead, good] }));
    await until(() => proxy.listeners === 1);
    for (let i = 0; i < 6; i++) expect(await ask(nodePort, "x")).toBe("good:x");
  });

  test("a Local policy keeps to local endpoints", async () => {
    const nodePort = await freePort();
    const [here, there] = [await pod("here"), await pod("there")];
    const proxy = start();
    proxy.follow(planOf({ nodePort, external: "local", clusterEndpoints: [here, there], localEndpoints: [here] }));
    await until(() => proxy.listeners === 1);
    for (let i = 0; i < 8; i++) expect(await ask(nodePort, "x")).toBe("here:x");
  });

  test("affinity keeps to the endpoint that served before", async () => {
    const nodePort = await freePort();
    const pods = await Promise.all(["a", "b", "c", "d"].map((name) => pod(name)));
    const proxy = start();
    proxy.follow(planOf({ nodePort, clusterEndpoints: pods, affinitySeconds: 600 }));
    await until(() => proxy.listeners === 1);
    const first = await ask(nodePort, "x");
    for (let i = 0; i < 12; i++) expect(await ask(nodePort, "x")).toBe(first);
  });

  test("no endpoint, no listener: refused at once; the last one to go closes it", async () => {
    const nodePort = await freePort();
    const proxy = start();
    proxy.follow(planOf({ nodePort, external: "reject", clusterEndpoints: [] }));
    expect(await ask(nodePort, "x")).toBe("refused");
    proxy.follow(planOf({ nodePort, clusterEndpoints: [await pod("a")] }));
    await until(() => proxy.listeners === 1);
    expect(await ask(nodePort, "x")).toBe("a:x");
    proxy.follow(planOf({ nodePort, external: "drop", clusterEndpoints: [await pod("b")] }));
    await until(() => proxy.listeners === 0);
    expect(await ask(nodePort, "x")).toBe("refused");
  });

  test("when no endpoint answers the client is reset", async () => {
    const nodePort = await freePort();
    const proxy = start();
    const dead = {
      ip: "127.0.0.1",
      port: await freePort(),
      local: true,
      ready: true,
      serving: true,
      terminating: false,
    };
    proxy.follow(planOf({ nodePort, clusterEndpoints: [dead] }));
    await until(() => proxy.listeners === 1);
    expect(["reset", "closed"]).toContain(await ask(nodePort, "x"));
  });

  test("a port that another process holds is counted and told once", async () => {
    const server = createServer();
    const nodePort = await listening(server, "127.0.0.1");
    closers.push(() => server.close());
    const proxy = start();
    const plan = planOf({ nodePort, clusterEndpoints: [await pod("a")] });
    proxy.follow(plan);
    await until(() => proxy.failures === 1);
    proxy.follow(plan);
    await Bun.sleep(20);
    expect(proxy.failures).toBe(1);
    expect(proxy.listeners).toBe(0);
    expect(lines).toHaveLength(1);
    expect(lines[0]?.[1]?.["address"]).toBe(`127.0.0.1:${nodePort}`);
  });
});
