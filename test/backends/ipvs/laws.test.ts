import { describe, expect, test } from "bun:test";
import { ipvs } from "../../../src/backends/ipvs/index.ts";
import type { IpvsObserved, IpvsState } from "../../../src/backends/ipvs/state.ts";
import type { Plan } from "../../../src/model/plan.ts";
import { makePlan } from "../../../src/model/planner.ts";
import type { ServiceInput } from "../../../src/model/snapshot.ts";
import { contextOf, makeInput, snapshotOf } from "./cluster.ts";
import { FakeKernel } from "./fake-kernel.ts";

const context = contextOf();

/** Deterministic numbers from 0 to below `limit` (mulberry32). */
function dice(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % limit;
  };
}

const protocols = ["TCP", "TCP", "UDP", "SCTP"] as const;

function randomService(n: number, roll: (limit: number) => number): ServiceInput {
  const protocol = protocols[roll(4)] ?? "TCP";
  const type = ["ClusterIP", "NodePort", "LoadBalancer"][roll(3)];
  const nodePort = type === "ClusterIP" ? {} : { nodePort: 30000 + n };
  const local = type === "ClusterIP" ? {} : { externalTrafficPolicy: roll(2) === 0 ? "Local" : "Cluster" };
  return makeInput({
    name: `s${n}`,
    ip: `10.96.0.${n + 1}`,
    protocol,
    endpoints: Array.from({ length: roll(4) }, () => `10.244.${1 + roll(2)}.${5 + roll(4)}`),
    spec: {
      type,
      ...local,
      ports: [{ name: "", port: 80 + roll(2), protocol, targetPort: 8080, ...nodePort }],
      externalIPs: roll(3) === 0 ? ["198.51.100.7"] : [],
      internalTrafficPolicy: roll(4) === 0 ? "Local" : "Cluster",
      ...(roll(4) === 0 ? { sessionAffinity: "ClientIP" } : {}),
      ...(roll(3) === 0 ? { loadBalancerSourceRanges: ["192.0.2.0/24", "192.168.0.0/16"].slice(roll(2)) } : {}),
    },
    status: type === "LoadBalancer" ? { loadBalancer: { ingress: [{ ip: `203.0.113.${n}` }] } } : {},
  });
}

/** Twelve places for Services; each round some are replaced, some emptied, most kept as the same objects. */
class World {
  readonly #roll: (limit: number) => number;
  readonly #inputs = new Map<number, ServiceInput>();
  #plan: Plan | undefined;

  constructor(seed: number) {
    this.#roll = dice(seed);
    for (let n = 0; n < 12; n++) this.#inputs.set(n, randomService(n, this.#roll));
  }

  next(previous?: IpvsState): IpvsState {
    for (let n = 0; n < 12; n++) {
      const fate = this.#roll(8);
      if (fate === 0) this.#inputs.delete(n);
      if (fate === 1 || fate === 2) this.#inputs.set(n, randomService(n, this.#roll));
    }
    this.#plan = makePlan(snapshotOf(...this.#inputs.values()), context, this.#plan);
    return ipvs.desired(this.#plan, context, previous);
  }
}

function observe(kernel: FakeKernel): IpvsObserved {
  const reading = ipvs.observe(context);
  return reading.parse(kernel.answer(reading.steps));
}

function bring(kernel: FakeKernel, to: IpvsState, from?: IpvsState) {
  const basis =
    from === undefined
      ? { kind: "observed" as const, observed: observe(kernel) }
      : { kind: "state" as const, state: from };
  const change = ipvs.diff(basis, to, context, 1000);
  kernel.apply(change.steps);
  return change;
}

function fresh(state: IpvsState): string {
  const kernel = new FakeKernel();
  bring(kernel, state);
  return kernel.dump(true);
}

/** What drains is gone after one more look, when nobody is connected. */
function drained(kernel: FakeKernel, state: IpvsState, to: IpvsState): string {
  const reading = ipvs.refresh?.(state, context);
  if (reading === undefined) return kernel.dump(true);
  const change = bring(kernel, to, reading.parse(kernel.answer(reading.steps)));
  expect(change.againMs).toBeUndefined();
  return kernel.dump(true);
}

describe("laws, with random Services", () => {
  const seeds = Array.from({ length: 40 }, (_, i) => [i + 1]);

  test.each(seeds)("seed %d: a chain of changes ends where a fresh start does", (seed) => {
    const world = new World(seed);
    const kernel = new FakeKernel();
    let held: IpvsState = bring(kernel, world.next()).state;
    for (let round = 0; round < 6; round++) {
      const to = world.next(held);
      const change = bring(kernel, to, held);
      expect(kernel.dump(false)).toBe(fresh(to));
      expect(change.againMs === undefined).toBe(change.state.draining.size === 0);
      expect(ipvs.diff({ kind: "state", state: change.state }, to, context, 2000).steps).toEqual([]);
      const look = ipvs.inspect(change.state, context);
      expect(look.parse([...kernel.answer(look.steps.slice(0, -1)), { exitCode: 0, stdout: "", stderr: "" }])).toEqual(
        [],
      );
      held = change.state;
    }
    const end = world.next(held);
    held = bring(kernel, end, held).state;
    expect(drained(kernel, held, end)).toBe(fresh(end));
  });

  test.each(seeds)("seed %d: from whatever another process left", (seed) => {
    const kernel = new FakeKernel();
    bring(kernel, new World(seed + 1000).next());
    const to = new World(seed + 2000).next();
    const change = bring(kernel, to);
    expect(kernel.dump(false)).toBe(fresh(to));
    expect(drained(kernel, change.state, to)).toBe(fresh(to));
  });

  test("equal inputs give identical text", () => {
    const text = (): string =>
      JSON.stringify(
        ipvs.diff({ kind: "observed", observed: observe(new FakeKernel()) }, new World(7).next(), context, 0).steps,
      );
    expect(text()).toBe(text());
  });
});
