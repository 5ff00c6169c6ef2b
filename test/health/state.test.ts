/** The verdict on the proxy's health, by story: what was asked for, what was done, what time it is. */
import { describe, expect, test } from "bun:test";
import {
  afterQueued,
  afterSync,
  type FamilyHealth,
  goTime,
  healthBody,
  judgeHealth,
  neverSynced,
} from "../../src/health/state.ts";
import type { FamilyName } from "../../src/model/family.ts";

const period = 30_000;
const start = Date.parse("2026-11-30T12:00:00Z");
const at = (seconds: number) => start + seconds * 1000;
const did = (health: FamilyHealth, from: number, to: number, ok = true) =>
  afterSync(health, { ok, startedAt: at(from), finishedAt: at(to) });

function healthyAt(seconds: number, ...families: readonly FamilyHealth[]): boolean {
  const names: readonly FamilyName[] = ["IPv4", "IPv6"];
  const facts = new Map(families.map((health, i) => [names[i] ?? "IPv4", health]));
  return judgeHealth({ families: facts, syncPeriodMs: period, nodeLeaving: false }, at(seconds)).healthy;
}

describe("healthy", () => {
  const synced = did(afterQueued(neverSynced, at(0)), 0, 1);

  test("not before the first successful sync of every family", () => {
    expect(healthyAt(1)).toBe(false);
    expect(healthyAt(1, neverSynced)).toBe(false);
    expect(healthyAt(1, did(neverSynced, 0, 1, false))).toBe(false);
    expect(healthyAt(1, synced, neverSynced)).toBe(false);
    expect(healthyAt(1, synced, synced)).toBe(true);
  });

  test("for ever when nothing changes (kubernetes#83263)", () => expect(healthyAt(86_400, synced)).toBe(true));

  test("until what was asked for is two periods late", () => {
    const asked = afterQueued(afterQueued(synced, at(10)), at(69));
    expect(healthyAt(70, asked)).toBe(true);
    expect(healthyAt(70.001, asked)).toBe(false);
    expect(healthyAt(72, did(asked, 71, 72))).toBe(true);
  });

  test("a failing periodic sync counts from its first failure, although nobody asked", () => {
    const failing = did(did(synced, 100, 101, false), 130, 131, false);
    expect(healthyAt(160, failing)).toBe(true);
    expect(healthyAt(160.001, failing)).toBe(false);
    expect(failing.lastSynced).toBe(at(1));
  });

  test("what is asked for during a sync stays due after it", () => {
    const during = did(afterQueued(afterQueued(synced, at(10)), at(12)), 11, 13);
    expect(healthyAt(71, during)).toBe(true);
    expect(healthyAt(71.001, during)).toBe(false);
  });
});

describe("bodies", () => {
  const families = new Map<FamilyName, FamilyHealth>([
    ["IPv4", did(neverSynced, 0, 1.5)],
    ["IPv6", did(neverSynced, 0, 2)],
  ]);
  const judge = (more: object, now = at(10)) =>
    judgeHealth({ families, syncPeriodMs: period, nodeLeaving: false, ...more }, now);

  test("healthz and livez of a healthy proxy", () => {
    expect(healthBody(judge({}), at(10), true)).toEqual({
      status: 200,
      body: '{"lastUpdated":"2026-11-30T12:00:10Z","currentTime":"2026-11-30T12:00:10Z","nodeEligible":true,"healthy":true,"status":{"IPv4":{"lastUpdated":"2026-11-30T12:00:01.5Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-30T12:00:02Z","healthy":true}}}',
    });
    expect(healthBody(judge({}), at(10), false)).toEqual({
      status: 200,
      body: '{"lastUpdated":"2026-11-30T12:00:10Z","currentTime":"2026-11-30T12:00:10Z","healthy":true,"status":{"IPv4":{"lastUpdated":"2026-11-30T12:00:01.5Z","healthy":true},"IPv6":{"lastUpdated":"2026-11-30T12:00:02Z","healthy":true}}}',
    });
  });

  test("a leaving Node fails healthz only", () => {
    const leaving = healthBody(judge({ nodeLeaving: true }), at(10), true);
    expect(leaving.status).toBe(503);
    expect(JSON.parse(leaving.body)).toMatchObject({
      nodeEligible: false,
      healthy: false,
      status: { IPv4: { healthy: true } },
    });
    expect(healthBody(judge({ nodeLeaving: true }), at(10), false).status).toBe(200);
  });

  test("an unhealthy proxy says when it was last right, or never", () => {
    const late = new Map(families).set("IPv6", afterQueued(did(neverSynced, 0, 2), at(3)));
    const body = healthBody(judge({ families: late }, at(100)), at(100), false);
    expect(body.status).toBe(503);
    expect(JSON.parse(body.body)).toMatchObject({
      lastUpdated: "2026-11-30T12:00:01.5Z",
      healthy: false,
      status: { IPv4: { healthy: true }, IPv6: { healthy: false } },
    });
    const never = healthBody(judge({ families: new Map([["IPv4", neverSynced]]) }), at(1), true);
    expect(JSON.parse(never.body)).toMatchObject({
      lastUpdated: "0001-01-01T00:00:00Z",
      status: { IPv4: { lastUpdated: "0001-01-01T00:00:00Z", healthy: false } },
    });
  });

  test("warnings are shown and do not fail the probe", () => {
    const body = healthBody(judge({ warnings: ['no Node named "x"'] }), at(10), true);
    expect(body.status).toBe(200);
    expect(JSON.parse(body.body).warnings).toEqual(['no Node named "x"']);
  });

  test.each([
    [0, "1970-01-01T00:00:00Z"],
    [1, "1970-01-01T00:00:00.001Z"],
    [120, "1970-01-01T00:00:00.12Z"],
    [100_000, "1970-01-01T00:01:40Z"],
  ])("%d ms as %s", (ms, text) => expect(goTime(ms)).toBe(text));
});
