/** Waiting for the Node at start: absent, not as wanted yet, and an API server that is not there are different news. */
import { afterEach, expect, test } from "bun:test";
import { anonymousAccess } from "../../src/kube/cluster-access.ts";
import { getNode, waitForNode } from "../../src/kube/node-wait.ts";
import { Transport } from "../../src/kube/transport.ts";
import { type ApiServer, startApiServer } from "../api/server.ts";
import { recordingLog, until } from "./recorder.ts";

let servers: ApiServer[] = [];
afterEach(async () => {
  for (const server of servers) await server.stop();
  servers = [];
});

function start() {
  const server = startApiServer();
  servers.push(server);
  const recorder = recordingLog();
  const options = { log: recorder.log, userAgent: "x", qps: -1, burst: 1 };
  const stop = new AbortController();
  const wait = {
    transport: new Transport(anonymousAccess(server.url, "test"), options),
    name: "n1",
    log: recorder.log,
    signal: stop.signal,
    timeoutMs: 100_000,
    backOff: { first: 5, most: 10 },
  };
  return { server, wait, stop, ...recorder };
}

test("found, missing, unreachable", async () => {
  const { server, wait } = start();
  expect(await getNode(wait.transport, "n1", wait.signal)).toEqual({ kind: "missing", node: undefined });
  server.setNode("n1", { podCIDRs: ["10.1.0.0/24"] });
  expect(await getNode(wait.transport, "n1", wait.signal)).toMatchObject({
    kind: "found",
    node: { podCIDRs: ["10.1.0.0/24"] },
  });
  await server.stop();
  expect(await getNode(wait.transport, "n1", wait.signal)).toMatchObject({
    kind: "unreachable",
    error: expect.stringContaining("connection is refused"),
  });
});

test("waits until the Node is as wanted", async () => {
  const { server, wait, text } = start();
  const answer = waitForNode({ ...wait, accept: (node) => node.podCIDRs.length > 0, wanted: "pod CIDRs" });
  await until("said", () => text().includes("no pod CIDRs yet"));
  server.setNode("n1");
  server.setNode("n1", { podCIDRs: ["10.1.0.0/24"] });
  expect((await answer).kind).toBe("found");
});

test("gives up after the time given, with what there is", async () => {
  const { server, wait } = start();
  server.setNode("n1");
  const answer = await waitForNode({ ...wait, timeoutMs: 30, accept: (node) => node.podCIDRs.length > 0 });
  expect(answer).toMatchObject({ kind: "missing", node: { name: "n1" } });
});

test("time without an API server does not count", async () => {
  const { server, wait, lines } = start();
  await server.stop();
  const answer = waitForNode({ ...wait, timeoutMs: 1 });
  await until("said", () => lines.some((line) => String(line.fields["reason"]).includes("refused")));
  await Bun.sleep(50);
  server.setNode("n1");
  await server.restart();
  expect((await answer).kind).toBe("found");
});

test("ends when it is told to", async () => {
  const { wait, stop } = start();
  const answer = waitForNode(wait);
  stop.abort();
  expect((await answer).kind).not.toBe("found");
});
