/** Scenarios with real connections: pods are addresses of this namespace, so one process plays client and both servers. */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { ServiceInput } from "../../src/model/snapshot.ts";
import { contextOf, makeInput, snapshotOf } from "../backends/ipvs/cluster.ts";
import { run } from "./host.ts";
import { IpvsProxy } from "./proxy.ts";

const podA = "10.244.1.5";
const podB = "10.244.1.6";
const vip = "10.96.0.1";

/** An established connection keeps its server; new ones go to the other; the server goes after the last connection. */
export async function drainTcp(): Promise<void> {
  const proxy = await prepare();
  const servers = [await tcpServer(podA), await tcpServer(podB)];
  await proxy.settle(snapshotOf(service("TCP", podA, podB)));
  const [first, second] = [await open(), await open()];
  const names = [await ask(first), await ask(second)];
  assert.deepEqual(names.toSorted(), [podA, podB], "round robin reaches both servers");
  const [kept, other] = names[0] === podA ? [first, second] : [second, first];

  const less = snapshotOf(service("TCP", podB));
  assert.notEqual(await proxy.sync(less), undefined, "a draining server is looked at again");
  assert.match(servers80(), new RegExp(`-r ${podA}:8080 -m -w 0`));
  assert.equal(await ask(kept), podA, "the old connection stays on its server");
  for (let i = 0; i < 4; i++) {
    const socket = await open();
    assert.equal(await ask(socket), podB, "new connections go elsewhere");
    socket.resetAndDestroy();
  }
  assert.notEqual(await proxy.sync(less), undefined, "it stays while its connection lives");
  assert.match(servers80(), new RegExp(`-r ${podA}:8080 -m -w 0`));

  kept.resetAndDestroy();
  other.resetAndDestroy();
  // The kernel keeps a reset connection for ten seconds.
  await until(async () => (await proxy.sync(less)) === undefined, 40);
  assert.doesNotMatch(servers80(), new RegExp(podA));
  for (const server of servers) server.close();
}

/** A flow of one client socket leaves the removed server within a few datagrams. */
export async function moveUdp(): Promise<void> {
  const proxy = await prepare();
  const servers = await Promise.all([udpServer(podA), udpServer(podB)]);
  await proxy.settle(snapshotOf(service("UDP", podA, podB)));
  const client = createSocket("udp4");
  const answers: string[] = [];
  client.on("message", (message) => answers.push(message.toString()));
  const answered = async (wanted: (answers: readonly string[]) => boolean): Promise<boolean> => {
    client.send("?", 80, vip);
    await Bun.sleep(100);
    return wanted(answers);
  };
  await until(() => answered((all) => all.length > 0), 20);
  const before = answers[0] ?? "";
  const rest = before === podA ? podB : podA;
  assert.equal(await proxy.sync(snapshotOf(service("UDP", rest))), undefined, "nothing drains");
  assert.doesNotMatch(servers80(), new RegExp(before));
  answers.length = 0;
  await until(() => answered((all) => all.includes(rest)), 20);
  client.close();
  for (const server of servers) server.close();
}

/** A new process finds the kernel as it should be and writes no server; one that came back from draining has weight 1. */
export async function restart(): Promise<void> {
  const before = await prepare();
  const both = snapshotOf(service("TCP", podA, podB));
  await before.settle(both);
  await before.sync(snapshotOf(service("TCP", podB)));
  assert.match(servers80(), new RegExp(`-r ${podA}:8080 -m -w 0`));

  const after = new IpvsProxy(before.context);
  await after.sync(both);
  assert.match(servers80(), new RegExp(`-r ${podA}:8080 -m -w 1`));
  const tools = after.steps.flatMap((s) => (s.kind === "exec" && s.input !== undefined ? [s.tool] : []));
  assert.deepEqual(tools, ["ipset", "iptables-restore", "ipvsadm"], "addresses are right already");

  const third = new IpvsProxy(before.context);
  await third.sync(both);
  const writes = third.steps.flatMap((s) => (s.kind === "exec" && s.input !== undefined ? [s.tool] : []));
  assert.deepEqual(writes, ["iptables-restore"], "only the fixed chains are written again");
}

// --- internal ---

function service(protocol: "TCP" | "UDP", ...endpoints: readonly string[]): ServiceInput {
  return makeInput({ name: "web", ip: vip, protocol, endpoints });
}

async function prepare(): Promise<IpvsProxy> {
  run("ip", "link", "set", "lo", "up");
  run("ip", "link", "add", "pods", "type", "dummy");
  run("ip", "link", "set", "pods", "up");
  for (const pod of [podA, podB]) run("ip", "addr", "add", `${pod}/32`, "dev", "pods");
  const proxy = new IpvsProxy(contextOf());
  await proxy.setup();
  return proxy;
}

function servers80(): string {
  return run("ipvsadm", "-Sn");
}

/** Answers every line with its own address. */
async function tcpServer(ip: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on("data", () => socket.write(ip));
    socket.on("error", () => {});
  });
  server.listen(8080, ip);
  await once(server, "listening");
  return server;
}

async function udpServer(ip: string): Promise<ReturnType<typeof createSocket>> {
  const server = createSocket("udp4");
  server.on("message", (_, from) => server.send(ip, from.port, from.address));
  server.bind(8080, ip);
  await once(server, "listening");
  return server;
}

async function open(): Promise<Socket> {
  const socket = connect(80, vip);
  socket.on("error", () => {});
  await once(socket, "connect", { signal: AbortSignal.timeout(5000) });
  return socket;
}

async function ask(socket: Socket): Promise<string> {
  socket.write("?");
  const [data] = await once(socket, "data", { signal: AbortSignal.timeout(5000) });
  return String(data);
}

async function until(done: () => Promise<boolean>, tries: number): Promise<void> {
  for (let i = 0; i < tries; i++) {
    if (await done()) return;
    await Bun.sleep(500);
  }
  assert.fail(`not so after ${tries} tries`);
}
