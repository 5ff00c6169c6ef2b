import { expect, test } from "bun:test";
import { cidrContains, compareIPs, joinHostPort, parseCIDR, parseIP } from "../../src/model/ip.ts";

test.each([
  ["10.0.0.1", "10.0.0.1"],
  ["010.000.0.001", "10.0.0.1"],
  ["256.1.1.1", undefined],
  ["1.2.3", undefined],
  ["1.2.3.4.5", undefined],
  ["", undefined],
  [" 1.2.3.4", undefined],
  ["::", "::"],
  ["::1", "::1"],
  ["FD00:0:0:0:0:0:0:A", "fd00::a"],
  ["1:0:0:2:0:0:0:3", "1:0:0:2::3"],
  ["1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"],
  ["::ffff:10.1.2.3", "10.1.2.3"],
  ["64:ff9b::10.1.2.3", "64:ff9b::a01:203"],
  ["fe80::1%eth0", undefined],
  ["1::2::3", undefined],
  ["1:2:3:4:5:6:7", undefined],
  ["1:2:3:4:5:6:7:8:9", undefined],
  ["12345::", undefined],
  ["::1; drop", undefined],
])("address %p is %p", (text, expected) => {
  expect(parseIP(text)).toBe(expected as string);
});

test.each([
  ["10.1.2.3/8", "10.0.0.0/8"],
  ["0.0.0.0/0", "0.0.0.0/0"],
  ["10.0.0.1/33", undefined],
  ["10.0.0.1/08", undefined],
  ["10.0.0.1", undefined],
  ["fd00:1:2:3::/50", "fd00:1:2::/50"],
  ["fd00:1:2:ffff::/50", "fd00:1:2:c000::/50"],
  ["::ffff:10.0.0.0/104", undefined],
  ["/8", undefined],
])("CIDR %p is %p", (text, expected) => {
  expect(parseCIDR(text)).toBe(expected as string);
});

test("containment respects families and bounds", () => {
  expect(cidrContains("10.0.0.0/8", "10.255.255.255")).toBe(true);
  expect(cidrContains("10.0.0.0/8", "11.0.0.0")).toBe(false);
  expect(cidrContains("0.0.0.0/0", "::1")).toBe(false);
  expect(cidrContains("fd00::/8", "fdff::1")).toBe(true);
});

test("order is by family, then number", () => {
  const sorted = ["fd00::2", "10.0.0.10", "fd00::1", "10.0.0.9"].sort(compareIPs);
  expect(sorted).toEqual(["10.0.0.9", "10.0.0.10", "fd00::1", "fd00::2"]);
});

test("IPv6 is bracketed before a port", () => {
  expect(joinHostPort("fd00::1", 80)).toBe("[fd00::1]:80");
});
