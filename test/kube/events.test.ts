/** The event recorder: what arrives at the API server, counting of repeats, and that failures stay in the background. */
import { afterEach, expect, test } from "bun:test";
import { anonymousAccess } from "../../src/kube/cluster-access.ts";
import { EventRecorder } from "../../src/kube/events.ts";
import { Transport } from "../../src/kube/transport.ts";
import { resourceOf } from "../api/kinds.ts";
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
  const transport = new Transport(anonymousAccess(server.url, "test"), {
    log: recorder.log,
    userAgent: "x",
    qps: -1,
    burst: 1,
  });
  const signal = new AbortController().signal;
  return { server, events: new EventRecorder({ transport, nodeName: "n1", log: recorder.log, signal }), ...recorder };
}

const starting = { type: "Normal", reason: "Starting", action: "StartKubeProxy", note: "" } as const;

test("an event on the Node, in namespace default", async () => {
  const { server, events } = start();
  events.record(starting);
  await until("arrived", () => server.events().length === 1);
  const [event] = server.events();
  expect(event).toMatchObject({
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    type: "Normal",
    reason: "Starting",
    action: "StartKubeProxy",
    reportingController: "kube-proxy",
    reportingInstance: "kube-proxy-n1",
    regarding: { kind: "Node", name: "n1", uid: "n1" },
  });
  expect(event?.metadata?.["namespace"]).toBe("default");
  expect(String(event?.["eventTime"])).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/);
});

test("an event on a Service, in its namespace, cut at 1,000 characters", async () => {
  const { server, events } = start();
  events.record({ type: "Warning", reason: "Quarantined", action: "Sync", note: "x".repeat(5000), service: "ns/web" });
  await until("arrived", () => server.events().length === 1);
  const [event] = server.events();
  expect(event?.["regarding"]).toEqual({ apiVersion: "v1", kind: "Service", namespace: "ns", name: "web" });
  expect(event?.metadata?.["namespace"]).toBe("ns");
  expect(String(event?.["note"]).length).toBe(1000);
});

test("repeats are counted on the same Event, made anew once it is gone", async () => {
  const { server, events } = start();
  for (let i = 0; i < 3; i++) events.record(starting);
  await until("counted", () => (server.events()[0]?.["series"] as { count?: number } | undefined)?.count === 3);
  expect(server.events().length).toBe(1);
  server.store.remove(
    resourceOf("Event", "events.k8s.io/v1"),
    `default/${String(server.events()[0]?.metadata?.["name"])}`,
  );
  events.record(starting);
  await until("made anew", () => server.events().length === 1);
  expect(server.events()[0]?.["series"]).toBeUndefined();
});

test("refused or unreachable: told once, nothing thrown, nothing piles up", async () => {
  const { server, events, lines } = start();
  server.forbid("create", "events");
  for (let i = 0; i < 1000; i++) events.record({ ...starting, note: String(i) });
  await until("the queue is done", () => server.requests.length >= 100);
  await Bun.sleep(50);
  expect(server.requests.length).toBeLessThanOrEqual(101);
  expect(lines.filter((line) => line.level === "warn").length).toBe(1);
  expect(String(lines[0]?.fields["error"])).toContain('allow "create" on "events.events.k8s.io"');
});
