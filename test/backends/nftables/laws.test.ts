/** The backend's laws with random clusters, in a real kernel: after any history the table equals that of a clean start. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type NftState, nftables } from "../../../src/backends/nftables/index.ts";
import type { Context } from "../../../src/model/context.ts";
import type { FamilyName } from "../../../src/model/family.ts";
import { makePlan } from "../../../src/model/planner.ts";
import { testContext } from "../../model/context.ts";
import { Random, type RawService, randomChange, randomService, snapshotOf } from "../../model/random.ts";
import { kernelMissing, Netns } from "./kernel.ts";

setDefaultTimeout(60_000);

const missing = kernelMissing();
if (missing !== undefined) console.warn(`nftables laws skipped: ${missing}`);

const MINUTE = 60_000;

const desired = (raw: readonly RawService[], context: Context, previous?: NftState): NftState =>
  nftables.desired(makePlan(snapshotOf(raw), context), context, previous);

/** Other configurations that a restart may bring. */
const otherContexts: readonly Partial<Context>[] = [
  { masqueradeMark: 0x20_0000 },
  { masqueradeAll: true },
  { detectLocal: { kind: "none" } },
  { detectLocal: { kind: "prefix", prefix: "ve*th" } },
  { nodePorts: { any: true, addresses: [], loopback: true } },
  { nodePorts: { any: false, addresses: [], loopback: false } },
  { localhostNodePorts: true },
];

type Gates = Context["gates"];
const layouts: readonly (readonly [string, Gates])[] = [
  ["standard layout", { nftablesCompact: false }],
  ["compact layout", { nftablesCompact: true }],
];

describe.skipIf(missing !== undefined).each(layouts)("laws of the %s", (_, gates) => {
  const contextOf = (family: FamilyName = "IPv4", changes: Partial<Context> = {}): Context =>
    testContext("nftables", family, { gates, ...changes });
  const others: readonly Partial<Context>[] = [
    ...otherContexts,
    { gates: { nftablesCompact: !gates.nftablesCompact } },
  ];
  const netns = missing === undefined ? new Netns() : undefined;
  const clean = missing === undefined ? new Netns() : undefined;
  afterAll(() => {
    netns?.close();
    clean?.close();
  });

  /** What a clean start with this state leaves. */
  function cleanTable(state: NftState, context: Context): string {
    if (clean === undefined) throw new Error("no namespace");
    clean.run(nftables.cleanup(context));
    clean.run(nftables.diff({ kind: "observed", observed: { kind: "absent" } }, state, context, 0).steps);
    return clean.table(context.family.nft);
  }

  function restart(to: NftState, context: Context, now: number): NftState {
    if (netns === undefined) throw new Error("no namespace");
    const reading = nftables.observe(context);
    const observed = reading.parse(netns.run(reading.steps));
    const change = nftables.diff({ kind: "observed", observed }, to, context, now);
    netns.run(change.steps);
    return settle(change.state, to, context, now + MINUTE);
  }

  /** The later call that `againMs` asks for. */
  function settle(state: NftState, to: NftState, context: Context, now: number): NftState {
    const last = nftables.diff({ kind: "state", state }, to, context, now);
    netns?.run(last.steps);
    expect(last.againMs).toBeUndefined();
    expect(last.state.condemned.size).toBe(0);
    return last.state;
  }

  const cases = Array.from({ length: 12 }, (_, i) => [i + 1, i % 2 === 0 ? "IPv4" : "IPv6"] as const);
  test.each(cases)("random history %i, %s", (seed, family: FamilyName) => {
    if (netns === undefined) return;
    const random = new Random(seed);
    let context = contextOf(family);
    let raw: readonly RawService[] = Array.from({ length: 8 }, (_, i) => randomService(random, i));
    let now = seed * 1_000_000;
    netns.run(nftables.cleanup(context));
    let state = restart(desired(raw, context), context, now);
    for (let round = 1; round <= 4; round++) {
      raw = randomChange(random, raw, round * 10);
      now += MINUTE;
      const to = desired(raw, context, state);
      const change = nftables.diff({ kind: "state", state }, to, context, now);
      netns.run(change.steps);
      if (change.state.condemned.size > 0) expect(change.againMs).toBeGreaterThan(0);
      expect(nftables.diff({ kind: "state", state: change.state }, to, context, now).steps).toEqual([]);
      state = settle(change.state, to, context, now + MINUTE);
      expect(netns.table(context.family.nft)).toBe(cleanTable(to, context));
    }
    context = contextOf(family, random.pick(others));
    const to = desired(randomChange(random, raw, 90), context);
    restart(to, context, now + 3 * MINUTE);
    expect(netns.table(context.family.nft)).toBe(cleanTable(to, context));
    netns.run(nftables.cleanup(context));
    netns.run(nftables.cleanup(context));
    expect(netns.table(context.family.nft)).toBe("");
  });

  test("a configuration that changes while running ends as a clean start with it", () => {
    if (netns === undefined) return;
    const random = new Random(7);
    let context = contextOf();
    const raw = Array.from({ length: 10 }, (_, i) => randomService(random, i));
    netns.run(nftables.cleanup(context));
    let now = 0;
    let state = restart(desired(raw, context), context, now);
    for (const changes of [...others, ...others.toReversed()]) {
      context = contextOf("IPv4", changes);
      now += 10 * MINUTE;
      const to = desired(raw, context, state);
      const change = nftables.diff({ kind: "state", state }, to, context, now);
      netns.run(change.steps);
      state = settle(change.state, to, context, now + MINUTE);
      expect(netns.table("ip")).toBe(cleanTable(to, context));
    }
  });

  test("another affinity timeout replaces the sets", () => {
    if (netns === undefined) return;
    const context = contextOf();
    const withTimeout = (seconds: number): RawService => {
      const { service, slices } = randomService(new Random(3), 1);
      const spec = {
        ...(service["spec"] as object),
        clusterIP: "10.96.0.1",
        clusterIPs: ["10.96.0.1"],
        sessionAffinity: "ClientIP",
        sessionAffinityConfig: { clientIP: { timeoutSeconds: seconds } },
      };
      const endpoints = [{ addresses: ["10.244.1.1"], conditions: { ready: true } }];
      const one = { ...slices[0], addressType: "IPv4", endpoints };
      return { service: { ...service, spec }, slices: [one] };
    };
    netns.run(nftables.cleanup(context));
    const before = restart(desired([withTimeout(600)], context), context, 0);
    expect(netns.table("ip")).toContain("timeout 10m");
    const to = desired([withTimeout(60)], context);
    netns.run(nftables.diff({ kind: "state", state: before }, to, context, MINUTE).steps);
    expect(netns.table("ip")).toBe(cleanTable(to, context));
    restart(before, context, 2 * MINUTE);
    expect(netns.table("ip")).toBe(cleanTable(before, context));
  });

  test("a Service whose plan is the same object is not rendered again", () => {
    const random = new Random(99);
    const context = contextOf();
    const raw = Array.from({ length: 20 }, (_, i) => randomService(random, i));
    const plan = makePlan(snapshotOf(raw), context);
    const first = nftables.desired(plan, context, undefined);
    const second = nftables.desired(makePlan(snapshotOf(raw), context, plan), context, first);
    // snapshotOf parsed anew, so nothing may be shared; the same plan shares everything.
    expect([...second.services.values()].some((objects, i) => objects === [...first.services.values()][i])).toBe(false);
    const third = nftables.desired(plan, context, first);
    for (const [key, objects] of third.services) expect(objects).toBe(first.services.get(key) as typeof objects);
    expect(third.base).toBe(first.base);
  });

  test("restarts with the other layout, there and back, end as clean starts with it", () => {
    if (netns === undefined) return;
    const other = contextOf("IPv4", { gates: { nftablesCompact: !gates.nftablesCompact } });
    netns.run(nftables.cleanup(other));
    const random = new Random(11);
    let raw: readonly RawService[] = Array.from({ length: 12 }, (_, i) => randomService(random, i));
    for (const [i, context] of [contextOf(), other, contextOf(), other].entries()) {
      raw = randomChange(random, raw, 20 + i * 10);
      const to = desired(raw, context);
      restart(to, context, i * 10 * MINUTE);
      expect(netns.table("ip")).toBe(cleanTable(to, context));
    }
  });
});
