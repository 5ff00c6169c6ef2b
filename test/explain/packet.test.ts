/** What a user types about a packet: understood, refused in one line, never an exception. */
import { expect, test } from "bun:test";
import { hereOf, nodeSource, printDestination, readDestination, readSource } from "../../src/explain/packet.ts";
import type { LocalDetector } from "../../src/model/context.ts";
import { makePlan } from "../../src/model/planner.ts";
import { testContext } from "../model/context.ts";
import { Random, snapshotOf } from "../model/random.ts";

test.each([
  ["10.96.0.1:80", "10.96.0.1:80/tcp"],
  ["10.96.0.1:53/UDP", "10.96.0.1:53/udp"],
  [" 010.96.0.1:1/sctp ", "10.96.0.1:1/sctp"],
  ["[FD00:0::A]:65535", "[fd00::a]:65535/tcp"],
])("%p is %p", (text, printed) => {
  const read = readDestination(text);
  expect(read.ok && printDestination(read.value)).toBe(printed);
});

test.each([
  ["", "IP:port"],
  ["10.96.0.1", "IP:port"],
  ["fd00::1:80", "IP:port"],
  ["10.96.0.256:80", '"10.96.0.256" is not an IP address'],
  ["10.96.0.1:0", "0 is not a port"],
  ["10.96.0.1:65536", "65536 is not a port"],
  ["10.96.0.1:80/icmp", '"icmp" is not a protocol'],
])("%p is refused", (text, problem) => {
  const read = readDestination(text);
  expect(read.ok ? "" : read.problem).toContain(problem);
});

test("what is refused is one printable line, whatever was typed", () => {
  const random = new Random(42);
  const context = testContext("iptables");
  const plan = makePlan(snapshotOf([]), context);
  const letters = [
    "1",
    "0",
    ".",
    ":",
    "[",
    "]",
    "/",
    "f",
    "\u0000",
    "\u001b",
    "é",
    "\n",
    "'",
    '"',
    "udp",
    "255",
    "::",
    "node",
  ];
  let understood = 0;
  for (let i = 0; i < 5000; i++) {
    const text = Array.from({ length: random.below(14) }, () => random.pick(letters)).join("");
    const to = readDestination(text);
    if (!to.ok) expect(to.problem).toMatch(/^[\x20-\x7e…]*$/);
    const from = readSource(text, { ip: "10.96.0.1", port: 80, protocol: "tcp" }, plan, context, hereOf(context));
    if (!from.ok) expect(from.problem).toMatch(/^[\x20-\x7e…]*$/);
    if (to.ok || from.ok) understood++;
  }
  expect(understood).toBeGreaterThan(0);
});

test("what an address is follows the detection mode", () => {
  const kind = (detectLocal: LocalDetector, ip: string, podCIDRs: readonly string[] = []) => {
    const context = testContext("iptables", "IPv4", { detectLocal });
    const here = { ...hereOf(context), podCIDRs };
    const read = readSource(
      ip,
      { ip: "10.96.0.1", port: 80, protocol: "tcp" },
      makePlan(snapshotOf([]), context),
      context,
      here,
    );
    return read.ok ? read.value.kind : read.problem;
  };
  const cidr: LocalDetector = { kind: "cidr", cidr: "10.244.0.0/16" };
  const bridge: LocalDetector = { kind: "bridge", name: "cbr0" };
  expect(kind(cidr, "10.244.7.7")).toBe("pod");
  expect(kind(cidr, "10.9.7.7")).toBe("external");
  expect(kind(cidr, "192.168.0.2")).toBe("node");
  expect(kind(cidr, "127.0.0.1")).toBe("node");
  // By interface only this node's own pods are told.
  expect(kind(bridge, "10.244.7.7")).toBe("external");
  expect(kind(bridge, "10.244.7.7", ["10.244.7.0/24"])).toBe("pod");
});

test("the node speaks to itself from the address it speaks to, and in ipvs mode to service addresses too", () => {
  const context = testContext("ipvs");
  const here = hereOf(context);
  expect(nodeSource("127.0.0.1", context, here)).toBe("127.0.0.1");
  expect(nodeSource("192.168.0.2", context, here)).toBe("192.168.0.2");
  expect(nodeSource("10.96.0.1", context, here)).toBe("192.168.0.2");
  expect(nodeSource("10.96.0.1", context, here, (ip) => ip === "10.96.0.1")).toBe("10.96.0.1");
});
