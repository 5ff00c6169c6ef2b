import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import type { ForeignChange } from "../../src/app/drift-watch.ts";
import { Suspicions } from "../../src/app/suspicions.ts";

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

function setUp(found = false, lookAtUnseen = true) {
  const did: string[] = [];
  let now = 0;
  const suspicions = new Suspicions({
    now: () => now,
    lookAtUnseen,
    repair: (family, drift, by) => did.push(`repair ${family} ${drift.map((d) => d.what).join()} by ${by}`),
    look: async (by) => {
      did.push(`look by ${by}`);
      return found;
    },
  });
  const pass = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms; i += 10) {
      now += 10;
      jest.advanceTimersByTime(10);
      for (let n = 0; n < 5; n++) await Promise.resolve();
    }
  };
  return { suspicions, did, pass };
}

const change = (generation: number, verdict: ForeignChange["verdict"], what = ""): ForeignChange => ({
  generation,
  verdict,
  by: `process ${generation} (nft)`,
  drift: what === "" ? [] : [{ kind: "rule", what, family: "IPv4" }],
});

test("what one monitor saw is repaired, though the other saw nothing", async () => {
  const { suspicions, did, pass } = setUp(false, false);
  suspicions.changed(change(7, "unseen"));
  suspicions.changed(change(7, "ours", "x"));
  await pass(60);
  expect(did).toEqual(["repair IPv4 x by process 7 (nft)"]);
});

test("objects of others, told by one monitor, are no reason to look; elements are", async () => {
  const { suspicions, did, pass } = setUp();
  suspicions.changed(change(7, "unseen"));
  suspicions.changed(change(7, "others"));
  await pass(3000);
  expect(did).toEqual([]);
  suspicions.changed(change(8, "unseen"));
  suspicions.changed(change(8, "unseen"));
  await pass(60);
  expect(did).toEqual(["look by process 8 (nft)"]);
});

test("somebody who writes all the time has us look once a second", async () => {
  const { suspicions, did, pass } = setUp();
  for (let i = 0; i < 100; i++) {
    suspicions.changed(change(i, "unseen"));
    await pass(100);
  }
  expect(did.length).toBeGreaterThan(5);
  expect(did.length).toBeLessThan(13);
});

test("a monitor that ended at a rule of ours: a look tells more, and if it does not, what is known is repaired", async () => {
  const vague = [{ kind: "rule", what: "some rule", family: "IPv4" as const }];
  const seen = setUp(true);
  seen.suspicions.certain(vague);
  seen.suspicions.changed(change(9, "unseen"));
  await seen.pass(100);
  expect(seen.did).toEqual(["look by process 9 (nft)"]);
  const unseen = setUp(false);
  unseen.suspicions.certain(vague);
  await unseen.pass(100);
  expect(unseen.did).toEqual(["look by ", "repair IPv4 some rule by "]);
});
