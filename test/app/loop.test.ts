import { afterEach, expect, test } from "bun:test";
import { type DriftFound, type FamilyLoop, SyncLoop } from "../../src/app/loop.ts";
import type { Synced } from "../../src/app/reconciler.ts";
import type { SyncReport } from "../../src/model/report.ts";
import { testContext } from "../model/context.ts";
import { snapshotOf } from "../model/random.ts";

const rejections: unknown[] = [];
process.on("unhandledRejection", (reason) => rejections.push(reason));
const loops: SyncLoop[] = [];
afterEach(async () => {
  for (const loop of loops.splice(0)) await loop.stop();
  await Bun.sleep(5);
  expect(rejections).toEqual([]);
});

const silent = { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} };

/** A family whose syncs do what `behave` says. */
function family(behave: () => void | Promise<void>): FamilyLoop & { forgotten: number; syncs: number } {
  const context = testContext("nftables");
  const loop = {
    context,
    plan: undefined,
    forgotten: 0,
    syncs: 0,
    forget: () => void loop.forgotten++,
    inspect: async () => [],
    sync: async (): Promise<Synced> => {
      loop.syncs++;
      await behave();
      const report = { family: context.family.name, ok: true } as SyncReport;
      return { report, applied: undefined, againMs: undefined, released: [] };
    },
  };
  return loop;
}

function start(loop: FamilyLoop, options: Partial<ConstructorParameters<typeof SyncLoop>[0]> = {}) {
  const crashes: { error: unknown; crashes: number }[] = [];
  const synced: SyncReport[] = [];
  const drifts: DriftFound[] = [];
  const taken = { services: 1, endpoints: 1, triggers: [1] };
  const putBack: unknown[] = [];
  const made = new SyncLoop({
    families: [{ loop, tally: { take: () => taken, putBack: (c) => putBack.push(c) } }],
    snapshot: () => snapshotOf([]),
    log: silent,
    minSyncPeriod: 0,
    // Also the longest pause between retries.
    syncPeriod: 20,
    now: Date.now,
    watched: () => false,
    onQueued: () => {},
    onSynced: (report) => synced.push(report),
    onDrift: (_, found) => drifts.push(found),
    onCrash: (_, error, count) => crashes.push({ error, crashes: count }),
    ...options,
  });
  loops.push(made);
  made.start();
  return { made, crashes, synced, drifts, putBack };
}

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error("gave up");
    await Bun.sleep(2);
  }
}

test("an unexpected error starts the family over from what the kernel holds, without being asked", async () => {
  let left = 1;
  const loop = family(() => {
    if (left-- > 0) throw new TypeError("undefined is not a function");
  });
  const { crashes, synced, putBack } = start(loop);
  await until(() => synced.length > 0);
  expect(crashes.map((c) => [String(c.error), c.crashes])).toEqual([["TypeError: undefined is not a function", 1]]);
  expect(loop.forgotten).toBe(1);
  // The changes are not lost to the metrics.
  expect(putBack).toEqual([{ services: 1, endpoints: 1, triggers: [1] }]);
});

test("errors in a row are counted, a good sync starts the count anew", async () => {
  const plan = [true, true, false, true, true, true];
  const loop = family(() => {
    if (plan.shift() === true) throw new Error("again");
  });
  const { made, crashes } = start(loop);
  await until(() => {
    made.request();
    return plan.length === 0;
  });
  await until(() => crashes.length === 5);
  expect(crashes.map((c) => c.crashes)).toEqual([1, 2, 1, 2, 3]);
});

test("a snapshot that cannot be made, and a follow-up that throws, count too", async () => {
  let broken = true;
  const first = start(
    family(() => {}),
    {
      snapshot: () => {
        if (broken) throw new Error("no snapshot");
        return snapshotOf([]);
      },
    },
  );
  await until(() => first.crashes.length > 0);
  broken = false;
  await until(() => first.synced.length > 0);
  let thrown = 0;
  const second = start(
    family(() => {}),
    {
      onSynced: () => {
        if (thrown++ < 2) throw new Error("follow-up");
      },
    },
  );
  await until(() => thrown > 2);
  expect(second.crashes.map((c) => c.crashes)).toEqual([1, 2]);
});

test("a look for drift that fails makes the next sync read everything, and ends nothing", async () => {
  const loop = family(() => {});
  let looks = 0;
  loop.inspect = async () => {
    if (looks++ === 0) throw new Error("cannot look");
    return [];
  };
  start(loop);
  await until(() => looks > 2 && loop.syncs > 1);
  expect(loop.forgotten).toBe(1);
});

test("drift that comes back at each look is repaired once a second at most", async () => {
  const loop = family(() => {});
  let looks = 0;
  loop.inspect = async () => {
    looks++;
    return [{ kind: "rule", what: "x" }];
  };
  const { drifts } = start(loop);
  await until(() => looks >= 20);
  expect(drifts.length).toBeLessThan(looks);
  expect(drifts[0]).toMatchObject({ drift: [{ kind: "rule", what: "x" }], by: "", returns: 0, nextMs: 1000 });
  expect(loop.forgotten).toBe(drifts.length);
});

test("looks that cost something are rare while events tell of changes, and regular while nothing does", async () => {
  const looks = { watched: 0, blind: 0 };
  for (const way of ["watched", "blind"] as const) {
    const loop = family(() => {});
    loop.inspect = async () => {
      looks[way]++;
      await Bun.sleep(15);
      return [];
    };
    start(loop, { watched: () => way === "watched", syncPeriod: 10 });
  }
  await until(() => looks.blind >= 5);
  expect(looks.watched).toBe(1);
});

test("1,000 changes within a moment are a handful of syncs", async () => {
  const loop = family(() => Bun.sleep(10));
  const { made } = start(loop, { minSyncPeriod: 100 });
  for (let i = 0; i < 1000; i++) {
    made.request();
    if (i % 100 === 99) await Bun.sleep(1);
  }
  await until(() => loop.syncs >= 2);
  expect(loop.syncs).toBeLessThan(6);
});
