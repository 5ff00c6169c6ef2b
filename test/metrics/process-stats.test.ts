/** The process_* values, from texts of /proc and from this very process. */
import { expect, test } from "bun:test";
import { processSource, processStartTime } from "../../src/metrics/process-source.ts";
import { processStats } from "../../src/metrics/process-stats.ts";

const numbers = Array.from({ length: 50 }, (_, i) => i + 4);
numbers[14 - 4] = 250;
numbers[15 - 4] = 50;
numbers[22 - 4] = 12_345;
numbers[23 - 4] = 999_424;

test("are parsed", () => {
  expect(
    processStats({
      selfStat: `77 (a) b (c)) S ${numbers.join(" ")}`,
      selfStatus: "Name:\tx\nVmRSS:\t    2048 kB\n",
      selfLimits:
        "Limit  Soft\nMax open files            1024                 4096                 files     \nMax address space         unlimited            unlimited            bytes     \n",
      selfNetstat: "TcpExt: InOctets\nTcpExt: 1\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 700 300\n",
      stat: "cpu 1 2\nbtime 1700000000\nprocesses 3\n",
      openFds: 12,
    }),
  ).toEqual({
    process_cpu_seconds_total: 3,
    process_start_time_seconds: 1_700_000_123.45,
    process_virtual_memory_bytes: 999_424,
    process_resident_memory_bytes: 2_097_152,
    process_max_fds: 1024,
    process_virtual_memory_max_bytes: 18446744073709552000,
    process_network_receive_bytes_total: 700,
    process_network_transmit_bytes_total: 300,
    process_open_fds: 12,
  });
});

test("are left out where /proc says nothing", () => {
  const nothing = {
    selfStat: undefined,
    selfStatus: undefined,
    selfLimits: undefined,
    selfNetstat: undefined,
    stat: undefined,
  };
  expect(processStats({ ...nothing, openFds: undefined })).toEqual({});
  expect(processStats({ ...nothing, selfStat: "garbage", selfLimits: "Max open files  x", openFds: 1 })).toEqual({
    process_open_fds: 1,
  });
  expect(processSource("/nonexistent")()).toEqual([]);
  expect(processStartTime("/nonexistent")).toBeUndefined();
});

test("of this process are all there and plausible", () => {
  const values = Object.fromEntries(processSource()().map(({ name, value }) => [name, value]));
  expect(Object.keys(values)).toHaveLength(9);
  expect(values["process_open_fds"]).toBeGreaterThan(2);
  expect(values["process_resident_memory_bytes"]).toBeGreaterThan(10_000_000);
  const age = Date.now() / 1000 - (processStartTime() ?? 0);
  expect(age).toBeGreaterThan(-2);
  expect(age).toBeLessThan(3600);
});
