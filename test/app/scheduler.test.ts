import { expect, test } from "bun:test";
import { type Outcome, Scheduler } from "../../src/app/scheduler.ts";

/** Times are real but only their order and bounds from below are asserted. */
function setUp(outcomes: readonly Outcome[], minSyncPeriod: number) {
  const starts: number[] = [];
  const scheduler = new Scheduler(
    async () => {
      starts.push(performance.now());
      await Bun.sleep(1);
      return outcomes[Math.min(starts.length, outcomes.length) - 1] ?? { ok: true };
    },
    { minSyncPeriod, maxRetry: 20, now: () => performance.now() },
  );
  const until = async (n: number): Promise<void> => {
    for (let i = 0; starts.length < n && i < 2000; i++) await Bun.sleep(2);
  };
  return { scheduler, starts, until };
}

test("a burst of requests is a handful of syncs, minSyncPeriod apart", async () => {
  const { scheduler, starts, until } = setUp([{ ok: true }], 50);
  scheduler.request();
  await until(1);
  for (let i = 0; i < 1000; i++) scheduler.request();
  await until(2);
  await Bun.sleep(120);
  await scheduler.stop();
  expect(starts).toHaveLength(2);
  expect((starts[1] ?? 0) - (starts[0] ?? 0)).toBeGreaterThanOrEqual(49);
});

test("a request during a sync leads to one more", async () => {
  let release = (): void => {};
  let runs = 0;
  const scheduler = new Scheduler(
    async () => {
      if (++runs === 1) await new Promise<void>((r) => (release = r));
      return { ok: true };
    },
    { minSyncPeriod: 0, maxRetry: 10, now: () => performance.now() },
  );
  scheduler.request();
  while (runs === 0) await Bun.sleep(1);
  scheduler.request();
  scheduler.request();
  await Bun.sleep(10);
  expect(runs).toBe(1);
  release();
  for (let i = 0; runs < 2 && i < 1000; i++) await Bun.sleep(1);
  await Bun.sleep(10);
  await scheduler.stop();
  expect(runs).toBe(2);
});

test("a failed sync is retried without being asked, also againMs", async () => {
  const { scheduler, starts, until } = setUp([{ ok: false }, { ok: false }, { ok: true, againMs: 5 }, { ok: true }], 0);
  scheduler.request();
  await until(4);
  await Bun.sleep(40);
  await scheduler.stop();
  expect(starts).toHaveLength(4);
});

test("stop waits for the sync under way and starts no other", async () => {
  const { scheduler, starts, until } = setUp([{ ok: true }], 0);
  scheduler.request();
  await until(1);
  scheduler.request();
  await scheduler.stop();
  const seen = starts.length;
  await Bun.sleep(20);
  expect(starts).toHaveLength(seen);
});
