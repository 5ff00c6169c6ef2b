/** The data behind the page: bounded history, searches over Services. */
import { expect, test } from "bun:test";
import { History } from "../../src/app/status-page-history.ts";
import { findServices } from "../../src/app/status-page-services.ts";
import { makePlan } from "../../src/model/planner.ts";
import type { SyncReport } from "../../src/model/report.ts";
import { testContext } from "../model/context.ts";
import { snapshotOf } from "../model/random.ts";
import { services } from "./page-server.ts";

function report(family: "IPv4" | "IPv6", at: number): SyncReport {
  return {
    family,
    mode: "nftables",
    startedAt: at - 25,
    finishedAt: at,
    full: false,
    ok: at % 2 === 0,
    error: undefined,
    stages: { plan: 0, desired: 0, observe: 0, diff: 0, apply: 0 },
    counts: {},
    triggers: [],
    noLocalEndpoints: { internal: 0, external: 0 },
    quarantined: [],
  };
}

test("history keeps the last 120 syncs a family and fifteen minutes of changes", () => {
  const history = new History();
  for (let i = 1; i <= 500; i++) history.synced(report(i % 5 === 0 ? "IPv6" : "IPv4", i * 1000));
  for (let at = 0; at < 3_600_000; at += 2_000) history.changed(1, 2, at);
  const { syncs, changes } = history.json(3_599_999);
  expect(syncs.filter((s) => s.family === "IPv4").length).toBe(120);
  expect(syncs.filter((s) => s.family === "IPv6").length).toBe(100);
  expect(syncs.at(-1)).toEqual({ at: 500_000, family: "IPv6", ms: 25, ok: true, full: false });
  expect(syncs.map((s) => s.at)).toEqual(syncs.map((s) => s.at).sort((a, b) => a - b));
  expect(changes.length).toBe(90);
  expect(changes.every((c) => c.services === 5 && c.endpoints === 10)).toBe(true);
  const later = history.json(3_599_999 + 600_000).changes;
  expect(later.filter((c) => c.services === 0).length).toBe(60);
});

const plan = makePlan(snapshotOf(services(300)), testContext("nftables"));
const find = (search: string, offset = 0) => findServices([["IPv4", plan]], search, offset);

test.each([
  ["", 300],
  ["shop/svc-2", 111],
  ["SVC-299", 1],
  ["30021", 1],
  ["10.244.1.8:8080 svc-7", 1],
  ["10.244.1.8:8080 svc-8", 0],
  ["node port", 128],
  ["<script>", 0],
])("search for %p finds %p", (search, count) => {
  expect(find(search).matching).toBe(count);
});

test("rows come a hundred at a time, with what is wrong about them", () => {
  expect(find("").rows.length).toBe(100);
  expect(find("", 250).rows.length).toBe(50);
  expect(find("", 999).rows).toEqual([]);
  expect(find("svc-10 ").rows[0]).toEqual({
    service: "shop/svc-10",
    families: ["IPv4"],
    addresses: ["10.96.0.11"],
    ports: ["80/tcp"],
    used: 0,
    known: 0,
    trouble: "no endpoints",
  });
  expect(find("svc-9").rows[0]).toMatchObject({ used: 1, known: 2, trouble: "" });
});
