import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { Repairs } from "../../src/app/repairs.ts";

beforeEach(() => {
  jest.useFakeTimers();
});
afterEach(() => {
  jest.useRealTimers();
});

function setUp() {
  const repaired: { what: string[]; by: string; returns: number; nextMs: number }[] = [];
  let now = 1_000_000;
  const repairs = new Repairs({
    now: () => now,
    repair: (drift, by, returns, nextMs) => repaired.push({ what: drift.map((d) => d.what), by, returns, nextMs }),
  });
  const pass = (ms: number): void => {
    for (let i = 0; i < ms; i += 100) {
      now += 100;
      jest.advanceTimersByTime(100);
    }
  };
  const found = (what: string, by = ""): void => repairs.found([{ kind: "rule", what }], by);
  return { repairs, repaired, pass, found };
}

test("the first drift is repaired at once, what comes right after it together a second later", () => {
  const { repaired, pass, found } = setUp();
  found("a", "process 1 (nft)");
  expect(repaired).toEqual([{ what: ["a"], by: "process 1 (nft)", returns: 0, nextMs: 1000 }]);
  found("b");
  found("c", "process 2 (nft)");
  found("b");
  pass(900);
  expect(repaired).toHaveLength(1);
  pass(100);
  expect(repaired[1]).toEqual({ what: ["b", "c"], by: "process 2 (nft)", returns: 0, nextMs: 1000 });
});

test("the same drift again and again is repaired ever more slowly, at last each 30 seconds", () => {
  const { repaired, pass, found } = setUp();
  for (let i = 0; i < 3000; i++) {
    found(`chain x has ${i} rules instead of 7`);
    pass(100);
  }
  expect(repaired.map((r) => r.nextMs)).toEqual([
    ...[1000, 1000, 1000, 1000, 1000, 2000, 4000, 8000, 16_000],
    ...Array.from({ length: repaired.length - 9 }, () => 30_000),
  ]);
  // 5 minutes: 9 to get there, the rest at the slowest pace.
  expect(repaired.length).toBeLessThan(20);
  expect(repaired.at(-1)?.returns).toBe(repaired.length - 1);
});

test("different drift is no fight, and a minute of peace makes the old one new", () => {
  const { repaired, pass, found } = setUp();
  for (const what of ["a", "b", "c", "d", "e", "f", "g", "h"]) {
    found(what);
    pass(1000);
  }
  expect(repaired.every((r) => r.returns === 0)).toBe(true);
  for (let i = 0; i < 4; i++) {
    found("h");
    pass(1000);
  }
  expect(repaired.at(-1)?.returns).toBe(4);
  pass(60_000);
  found("h");
  expect(repaired.at(-1)?.returns).toBe(0);
});

test("closed while one waits: nothing more happens", () => {
  const { repairs, repaired, pass, found } = setUp();
  found("a");
  found("b");
  repairs.close();
  pass(5000);
  expect(repaired).toHaveLength(1);
});
