import { expect, test } from "bun:test";
import { Reconciler } from "../../src/app/reconciler.ts";
import type { ServiceInput } from "../../src/model/snapshot.ts";
import { testContext } from "../model/context.ts";
import { Random, type RawService, randomService, snapshotOf } from "../model/random.ts";
import { ToyKernel, toyBackend } from "./toy-backend.ts";

function setUp(count: number) {
  const random = new Random(count);
  const raw = Array.from({ length: count }, (_, i) => randomService(random, i)).filter(isIPv4);
  const memory = new Map<RawService, ServiceInput>();
  const kernel = new ToyKernel();
  let now = 1_000_000;
  const context = testContext("iptables");
  const reconciler = new Reconciler({ backend: toyBackend, context, run: kernel.run, now: () => now });
  const sync = (services: readonly RawService[] = raw) => reconciler.sync(snapshotOf(services, memory));
  return { raw, kernel, reconciler, sync, pass: (ms: number) => (now += ms) };
}

const keysIn = (kernel: ToyKernel): readonly string[] => [...kernel.objects].map((o) => o.split("=")[0] ?? "").sort();

test("the first sync reads the kernel, later ones do not, and an unchanged one writes nothing", async () => {
  const { kernel, sync } = setUp(20);
  expect((await sync()).report).toMatchObject({ ok: true, full: true });
  expect(kernel.log).toEqual(["list", "write"]);
  expect((await sync()).report).toMatchObject({ ok: true, full: false });
  expect(kernel.log).toEqual(["list", "write"]);
});

test("after one failure the kernel is read again and everything is right", async () => {
  const { raw, kernel, sync } = setUp(20);
  await sync();
  const before = keysIn(kernel);
  kernel.failNext = 1;
  const failed = await sync(raw.slice(1));
  expect(failed.report).toMatchObject({ ok: false, error: "write (write) failed with exit code 1; out of luck" });
  expect(keysIn(kernel)).toEqual(before);
  expect((await sync(raw.slice(1))).report).toMatchObject({ ok: true, full: true });
  expect(keysIn(kernel).length).toBeLessThan(before.length);
});

test.each([1, 2, 5])("%p Services that the kernel refuses are found, all others programmed", async (bad) => {
  const { kernel, sync, reconciler } = setUp(100);
  await sync();
  const all = keysIn(kernel);
  const culprits = all.filter((_, i) => i % 17 === 3).slice(0, bad);
  kernel.objects.clear();
  reconciler.forget();
  const fresh = setUp(100);
  fresh.kernel.refuse = (line) =>
    line.startsWith("+") && culprits.includes(line.slice(1).split("=")[0] ?? "") ? "no such match" : undefined;
  expect((await fresh.sync()).report.ok).toBe(false);
  const second = await fresh.sync();
  expect(second.report.ok).toBe(true);
  expect(second.report.quarantined.map((q) => q.service).sort()).toEqual(culprits.toSorted());
  expect(second.report.quarantined[0]?.reason).toContain("no such match");
  expect(keysIn(fresh.kernel)).toEqual(all.filter((k) => !culprits.includes(k)));
});

test("a tool that names the line finds the culprit at the first failure", async () => {
  const { raw, kernel, sync } = setUp(50);
  const culprit = raw[3] === undefined ? "" : keyOf(raw[3]);
  kernel.refuse = (line) => (line.startsWith(`+${culprit}=`) ? `culprit ${culprit}` : undefined);
  const { report } = await sync();
  expect(report.ok).toBe(true);
  expect(report.quarantined.map((q) => q.service)).toEqual([culprit]);
});

test("a quarantined Service keeps its last good rules, is retried with back-off and freed when it works", async () => {
  const { raw, kernel, sync, pass } = setUp(30);
  await sync();
  const one = raw.find(
    (r) => kernel.objects.size > 0 && [...kernel.objects].some((o) => o.startsWith(`${keyOf(r)}=1`)),
  );
  if (one === undefined) throw new Error("no Service with endpoints");
  const good = [...kernel.objects].find((o) => o.startsWith(`${keyOf(one)}=`));
  const changed = raw.map((r) => (r === one ? { ...one, slices: [] } : r));
  kernel.refuse = (line) => (line === `+${keyOf(one)}=` ? `culprit ${keyOf(one)}` : undefined);
  const held = await sync(changed);
  expect(held.report.quarantined.map((q) => q.service)).toEqual([keyOf(one)]);
  expect(kernel.objects.has(good ?? "")).toBe(true);
  expect(held.againMs).toBeGreaterThan(0);
  kernel.refuse = () => undefined;
  expect((await sync(changed)).report.quarantined).toHaveLength(1);
  pass(held.againMs ?? 0);
  const freed = await sync(changed);
  expect(freed.released).toEqual([keyOf(one)]);
  expect(kernel.objects.has(good ?? "")).toBe(false);
});

test("drift is found by inspection and repaired by the next sync", async () => {
  const { kernel, sync, reconciler } = setUp(10);
  await sync();
  expect(await reconciler.inspect()).toEqual([]);
  const victim = [...kernel.objects][0] ?? "";
  kernel.objects.delete(victim);
  expect(await reconciler.inspect()).toEqual([{ kind: "object", what: victim }]);
  reconciler.forget();
  expect((await sync()).report).toMatchObject({ ok: true, full: true });
  expect(kernel.objects.has(victim)).toBe(true);
});

test("drift told of in the middle of a sync is not forgotten by its end", async () => {
  const { raw, kernel, sync, reconciler } = setUp(10);
  await sync();
  const syncing = sync(raw.slice(1));
  reconciler.forget();
  await syncing;
  const victim = [...kernel.objects][0] ?? "";
  kernel.objects.delete(victim);
  expect((await sync(raw.slice(1))).report).toMatchObject({ ok: true, full: true });
  expect(kernel.objects.has(victim)).toBe(true);
});

test("a failure because others took away what we build on is nobody's fault", async () => {
  const { raw, kernel, sync } = setUp(30);
  await sync();
  const one = raw[3];
  if (one === undefined) throw new Error("no Service");
  let refused = 0;
  // The kernel refuses once, naming an innocent Service.
  kernel.refuse = () => (refused++ === 0 ? `culprit ${keyOf(one)}` : undefined);
  const { report } = await sync(raw.map((r) => (r === one ? { ...one, slices: [] } : r)));
  expect(report).toMatchObject({ ok: true, full: true, quarantined: [] });
  expect(refused).toBeGreaterThan(0);
});

/** The context's family is IPv4: other Services are no part of its plan. */
function isIPv4(raw: RawService): boolean {
  const [input] = snapshotOf([raw]).services.values();
  return input?.service.clusterIPs.some((ip) => !ip.includes(":")) ?? false;
}

function keyOf(raw: RawService): string {
  const { namespace, name } = raw.service["metadata"] as { namespace: string; name: string };
  return `${namespace}/${name}`;
}
