/** The health server over HTTP on loopback, compared with what kube-proxy answered. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { type Listener, listen } from "../../src/app/listen.ts";
import { healthHandler } from "../../src/health/server.ts";
import { type FamilyHealth, type HealthFacts, neverSynced } from "../../src/health/state.ts";
import type { FamilyName } from "../../src/model/family.ts";
import { recorded, shape } from "./recorded.ts";

const synced: FamilyHealth = { lastSynced: 1_000, dueSince: undefined, lastQueued: 900 };
const bothFamilies = (health: FamilyHealth) =>
  new Map<FamilyName, FamilyHealth>([
    ["IPv4", health],
    ["IPv6", health],
  ]);
let facts: HealthFacts;
let answered: string[] = [];
let server: Listener;

beforeAll(() => {
  const handler = healthHandler({
    facts: () => facts,
    now: () => 5_000,
    answered: (endpoint, status) => answered.push(`${endpoint} ${status}`),
  });
  server = listen("127.0.0.1", 0, handler);
});
afterAll(() => server.close());
beforeEach(() => {
  facts = { families: bothFamilies(synced), syncPeriodMs: 30_000, nodeLeaving: false };
  answered = [];
});

const ask = (path: string, init?: RequestInit) => fetch(`http://127.0.0.1:${server.port}${path}`, init);

describe("like kube-proxy", () => {
  test.each([
    ["/healthz", "10256_healthz"],
    ["/livez", "10256_livez"],
  ])("%s", async (path, name) => {
    const theirs = recorded(name);
    const ours = await ask(path);
    expect(ours.status).toBe(theirs.status);
    expect(ours.headers.get("content-type")).toBe(theirs.headers.get("Content-Type") ?? "absent");
    expect(ours.headers.get("x-content-type-options")).toBe("nosniff");
    expect(shape(await ours.json())).toEqual(shape(JSON.parse(theirs.body)));
  });

  test.each(["/", "/healthz/", "/metrics", "/nope", "/healthz%00"])("%s is not found", async (path) => {
    const theirs = recorded("10256");
    const ours = await ask(path);
    expect([ours.status, await ours.text()]).toEqual([theirs.status, theirs.body]);
    expect(ours.headers.get("content-type")).toBe(theirs.headers.get("Content-Type") ?? "absent");
    expect(answered).toEqual([]);
  });
});

test("503 before the first sync, on both", async () => {
  facts = { ...facts, families: bothFamilies(neverSynced) };
  expect([(await ask("/healthz")).status, (await ask("/livez")).status]).toEqual([503, 503]);
  expect(answered).toEqual(["healthz 503", "livez 503"]);
});

test("a leaving Node: healthz 503, livez 200, and back", async () => {
  facts = { ...facts, nodeLeaving: true };
  expect([(await ask("/healthz")).status, (await ask("/livez")).status]).toEqual([503, 200]);
  facts = { ...facts, nodeLeaving: false };
  expect((await ask("/healthz?verbose")).status).toBe(200);
});

test("methods: probes' ones yes, others 405", async () => {
  expect((await ask("/healthz", { method: "HEAD" })).status).toBe(200);
  expect((await ask("/healthz", { method: "OPTIONS" })).status).toBe(200);
  const post = await ask("/healthz", { method: "POST", body: "x" });
  expect([post.status, post.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
});

test("HTTP/1.0 without a Host, as load balancers ask", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  let text = "";
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: server.port,
    socket: {
      data: (self, data) => {
        text += data.toString();
        if (text.includes('"status"')) self.end();
      },
      close: () => resolve(text),
    },
  });
  socket.write("GET /healthz HTTP/1.0\r\n\r\n");
  expect((await promise).split("\r\n")[0]).toBe("HTTP/1.1 200 OK");
});
