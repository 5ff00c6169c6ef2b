/** The contract of src/backends/backend.ts, one suite over all three backends. What needs a kernel: test/backends, test/uml. */
import { describe, expect, test } from "bun:test";
import { backendOf } from "../../src/app/modes.ts";
import type { ProxyMode } from "../../src/model/context.ts";
import type { FamilyName } from "../../src/model/family.ts";
import { makePlan } from "../../src/model/planner.ts";
import type { ServiceInput } from "../../src/model/snapshot.ts";
import type { Step } from "../../src/model/step.ts";
import { testContext } from "../model/context.ts";
import { Random, type RawService, randomChange, randomService, snapshotOf } from "../model/random.ts";

const grid = (["iptables", "nftables", "ipvs"] as const).flatMap((mode) =>
  (["IPv4", "IPv6"] as const).map((family) => [mode, family] as const),
);

const now = 1_800_000_000_000;

function textOf(steps: readonly Step[]): string {
  return steps
    .map((s) => (s.kind === "exec" ? `${s.tool} ${s.args.join(" ")}\n${s.input?.join("") ?? ""}` : JSON.stringify(s)))
    .join("\n");
}

/** A backend with a context and an empty kernel to start from. */
function subject(mode: ProxyMode, family: FamilyName) {
  const backend = backendOf(mode);
  const context = testContext(mode, family);
  const reading = backend.observe(context);
  const nothing = reading.parse(reading.steps.map(() => ({ exitCode: 1, stdout: "", stderr: "" })));
  const cluster = (seed: number, n = 40): readonly RawService[] => {
    const random = new Random(seed);
    return Array.from({ length: n }, (_, i) => randomService(random, i));
  };
  return { backend, context, empty: { kind: "observed", observed: nothing } as const, cluster };
}

describe.each(grid)("%s %s", (mode, family) => {
  const { backend, context, empty, cluster } = subject(mode, family);

  test("from an empty kernel everything is written, from the result nothing", () => {
    const desired = backend.desired(makePlan(snapshotOf(cluster(1)), context), context, undefined);
    const first = backend.diff(empty, desired, context, now);
    expect(first.steps.length).toBeGreaterThan(0);
    const second = backend.diff({ kind: "state", state: first.state }, desired, context, now + 60_000);
    expect(second.steps).toEqual([]);
  });

  test("equal inputs give identical text", () => {
    const make = (): string => {
      const desired = backend.desired(makePlan(snapshotOf(cluster(2)), context), context, undefined);
      return textOf(backend.diff(empty, desired, context, now).steps);
    };
    expect(make()).toBe(make());
  });

  test("a desired state made with a previous one equals one made from scratch", () => {
    const random = new Random(3);
    const memory = new Map<RawService, ServiceInput>();
    let raw = cluster(3);
    let plan = makePlan(snapshotOf(raw, memory), context);
    let state = backend.desired(plan, context, undefined);
    for (let round = 0; round < 8; round++) {
      raw = randomChange(random, raw, 100 + round * 3);
      plan = makePlan(snapshotOf(raw, memory), context, plan);
      state = backend.desired(plan, context, state);
      const scratch = backend.desired(makePlan(snapshotOf(raw), context), context, undefined);
      const text = (s: unknown): string => textOf(backend.diff(empty, s, context, now).steps);
      expect(text(state)).toBe(text(scratch));
    }
  });

  test("one changed Service is a small change, and unchanged ones are not in it", () => {
    const raw = cluster(4, 200);
    const memory = new Map<RawService, ServiceInput>();
    const plan = makePlan(snapshotOf(raw, memory), context);
    const desired = backend.desired(plan, context, undefined);
    const { state } = backend.diff(empty, desired, context, now);
    const victim = raw.find((r) => plan.services.get(keyOf(r))?.ports.some((p) => p.endpoints.length > 1) === true);
    if (victim === undefined) throw new Error("no Service with endpoints");
    const fewer = {
      ...victim,
      slices: victim.slices.map((s) => ({ ...s, endpoints: (s["endpoints"] as unknown[]).slice(0, 1) })),
    };
    const changed = raw.map((r) => (r === victim ? fewer : r));
    const next = backend.desired(makePlan(snapshotOf(changed, memory), context, plan), context, desired);
    const change = textOf(backend.diff({ kind: "state", state }, next, context, now + 60_000).steps);
    const whole = textOf(backend.diff(empty, next, context, now).steps);
    expect(change).not.toBe("");
    expect(change.length).toBeLessThan(whole.length / 10);
  });

  test("without Services only what is fixed is left, whatever was there before", () => {
    const desired = backend.desired(makePlan(snapshotOf(cluster(5)), context), context, undefined);
    const { state } = backend.diff(empty, desired, context, now);
    const none = backend.desired(makePlan(snapshotOf([]), context), context, desired);
    const gone = backend.diff({ kind: "state", state }, none, context, now + 60_000);
    expect(gone.steps.length).toBeGreaterThan(0);
    expect(backend.diff({ kind: "state", state: gone.state }, none, context, now + 600_000).againMs).toBeUndefined();
  });
});

function keyOf(raw: RawService): string {
  const { namespace, name } = raw.service["metadata"] as { namespace: string; name: string };
  return `${namespace}/${name}`;
}
