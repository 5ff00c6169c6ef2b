/** Go's durations: read, printed, and read again. */
import { describe, expect, test } from "bun:test";
import { parseDuration, printDuration } from "../../src/config/duration.ts";

const hour = 3_600_000;

describe("read", () => {
  test.each([
    ["0", 0],
    ["-0", 0],
    ["+0s", 0],
    ["30s", 30_000],
    ["1h30m", 1.5 * hour],
    ["1h30m0s", 1.5 * hour],
    ["1.5s", 1500],
    [".5s", 500],
    ["1.s", 1000],
    ["-1m", -60_000],
    ["100us", 0.1],
    ["100µs", 0.1],
    ["100μs", 0.1],
    ["3ns", 0.000003],
    ["2562047h", 2562047 * hour],
  ] as const)("%s", (text, ms) => {
    expect(parseDuration(text)).toBe(ms);
  });

  test.each(["", "30", "s", "-", "1 s", "1d", "1h 30m", "1,5s", "1e3s", "--1s", ".s", "2562048h", "0x1s", "1S"])(
    "%j is none",
    (text) => {
      expect(parseDuration(text)).toBeUndefined();
    },
  );
});

describe("printed as Go prints them", () => {
  test.each([
    [0, "0s"],
    [1, "1ms"],
    [1500, "1.5s"],
    [30_000, "30s"],
    [60_000, "1m0s"],
    [90_000, "1m30s"],
    [hour, "1h0m0s"],
    [24 * hour, "24h0m0s"],
    [15 * 60_000, "15m0s"],
    [hour + 1, "1h0m0.001s"],
    [0.1, "100µs"],
    [0.0015, "1.5µs"],
    [0.000003, "3ns"],
    [2.5, "2.5ms"],
    [-90_000, "-1m30s"],
  ] as const)("%d", (ms, text) => {
    expect(printDuration(ms)).toBe(text);
    expect(parseDuration(text)).toBe(ms);
  });
});
