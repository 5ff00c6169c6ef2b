import { describe, expect, test } from "bun:test";
import {
  type ConntrackSettings,
  decide,
  isFatal,
  wantedBuckets,
  wantedMax,
  wantedSettings,
} from "../../src/conntrack/limits.ts";

const nothing: ConntrackSettings = {
  maxPerCore: 0,
  min: 131_072,
  tcpEstablishedTimeout: 0,
  tcpCloseWaitTimeout: 0,
  udpTimeout: 0,
  udpStreamTimeout: 0,
  tcpBeLiberal: false,
};
const max = {
  file: "nf_conntrack_max",
  value: 1000,
  when: "below",
  field: "conntrack.maxPerCore",
  leave: "0",
} as const;
const timeout = { ...max, file: "nf_conntrack_udp_timeout", when: "differs" } as const;

describe("what is wanted", () => {
  test("maxPerCore 0 and no timeouts: nothing, whatever min says", () => {
    expect(wantedSettings(nothing, 64)).toEqual([]);
  });

  test.each([
    [32_768, 131_072, 2, 131_072],
    [32_768, 131_072, 4, 131_072],
    [32_768, 131_072, 64, 2_097_152],
    [32_768, 0, 1, 32_768],
    [0, 131_072, 64, 0],
  ])("%d a core, at least %d, %d CPUs: %d", (maxPerCore, min, cpus, wanted) => {
    expect(wantedMax({ ...nothing, maxPerCore, min }, cpus)).toBe(wanted);
  });

  test("every setting has its file", () => {
    const all = {
      ...nothing,
      maxPerCore: 1,
      tcpEstablishedTimeout: 86_400,
      tcpCloseWaitTimeout: 3600,
      udpTimeout: 30,
      udpStreamTimeout: 0.5,
      tcpBeLiberal: true,
    };
    expect(wantedSettings(all, 1).map(({ file, value }) => `${file}=${value}`)).toEqual([
      "nf_conntrack_max=131072",
      "nf_conntrack_tcp_timeout_established=86400",
      "nf_conntrack_tcp_timeout_close_wait=3600",
      "nf_conntrack_tcp_be_liberal=1",
      "nf_conntrack_udp_timeout=30",
      "nf_conntrack_udp_timeout_stream=1",
    ]);
  });
});

test.each([
  [max, undefined, "absent"],
  [max, 999, "write"],
  [max, 1000, "keep"],
  [max, 9999, "keep"],
  [timeout, 9999, "write"],
  [timeout, 1000, "keep"],
] as const)("%o at %p: %s", (wanted, current, decision) => {
  expect(decide(wanted, current)).toBe(decision);
});

test("only less than wanted is fatal", () => {
  expect([isFatal(timeout, 999), isFatal(timeout, 1001)]).toEqual([true, false]);
});

test("buckets: a quarter of the entries, never fewer than there are", () => {
  expect([wantedBuckets(131_072, 16_384), wantedBuckets(131_072, 32_768), wantedBuckets(0, 1)]).toEqual([
    32_768,
    undefined,
    undefined,
  ]);
});
