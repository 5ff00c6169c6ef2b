/** Lines of nft monitor as nft 1.0.6 printed them on kernel 6.18, and lines that nobody expects. */
import { describe, expect, test } from "bun:test";
import {
  concerns,
  describeEvent,
  type NftGeneration,
  nothingPending,
  parseEvent,
  parseGeneration,
  takeLine,
} from "../../src/tools/nft-monitor.ts";

const recorded = `add table ip kube-proxy
add chain ip kube-proxy nat-output { type nat hook output priority -100; policy accept; }
add map ip kube-proxy m { type ipv4_addr . inet_proto . inet_service : verdict; comment "xx"; }${" "}
add element ip kube-proxy m { 10.0.0.1 . tcp . 80 comment "ns/x" : goto services }
add rule ip kube-proxy services meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }
# new generation 2 by process 8084 (nft)
delete rule ip kube-proxy services handle 6
delete set ip kube-proxy __set0
# new generation 5 by process 8087 (some tool (odd))
create chain ip nat KUBE-SERVICES
delete rule ip nat PREROUTING handle 4
# new generation 7
add table inet firewalld`;

function generations(text: string): readonly NftGeneration[] {
  const out: NftGeneration[] = [];
  let pending = nothingPending;
  for (const line of text.split("\n")) {
    const taken = takeLine(pending, line);
    pending = taken.pending;
    if (taken.generation !== undefined) out.push(taken.generation);
  }
  return out;
}

describe("nft monitor", () => {
  test("events come before the line that says whose they are", () => {
    const [first, second, third] = generations(recorded);
    expect(first).toMatchObject({ generation: 2, pid: 8084, process: "nft", more: 0 });
    expect(first?.events.map(({ verb, kind, name }) => [verb, kind, name])).toEqual([
      ["add", "table", ""],
      ["add", "chain", "nat-output"],
      ["add", "map", "m"],
      ["add", "element", "m"],
      ["add", "rule", "services"],
    ]);
    expect(second).toMatchObject({ generation: 5, pid: 8087, process: "some tool (odd)" });
    expect(third).toMatchObject({ generation: 7, pid: 0, process: "" });
    expect(third?.events).toHaveLength(2);
  });

  test.each([
    ["delete table ip kube-proxy", "nftables", true],
    ["delete element ip kube-proxy service-ips { 10.0.0.1 . tcp . 80 : drop }", "nftables", true],
    ["add element ip kube-proxy affinity-X { 1.2.3.4 expires 5s }", "nftables", false],
    ["delete table inet kube-proxy", "nftables", false],
    ["delete rule ip nat PREROUTING handle 4", "nftables", false],
    ["delete rule ip nat PREROUTING handle 4", "iptables", true],
    ["add rule ip nat PREROUTING counter packets 0 bytes 0 jump KUBE-SERVICES", "iptables", true],
    ["add rule ip nat PREROUTING counter packets 0 bytes 0 jump DOCKER", "iptables", false],
    ["add rule ip filter KUBE-FORWARD drop", "ipvs", true],
    ["delete table ip6 nat", "iptables", true],
    ["add table ip nat", "iptables", false],
    ["delete table ip kube-proxy", "iptables", false],
  ] as const)("%s in %s mode: %p", (line, mode, expected) => {
    const event = parseEvent(line);
    if (event === undefined) throw new Error("not an event");
    expect(concerns(event, mode)).toBe(expected);
  });

  test.each([
    "",
    "# new generation x",
    "Error: foo",
    "add flowtable",
    "add table",
    "trace id 1 ip x",
    "add table zz x",
  ])("passes over %j", (line) => {
    expect(parseEvent(line)).toBeUndefined();
    expect(parseGeneration(line)).toBeUndefined();
  });

  test("a transaction of any size is bounded", () => {
    let pending = nothingPending;
    for (let i = 0; i < 1_000; i++)
      pending = takeLine(pending, `add chain ip kube-proxy c${i} ${"x".repeat(5_000)}`).pending;
    expect(pending.events.length).toBe(200);
    expect(pending.more).toBe(800);
    expect(pending.events[0]?.text.length).toBeLessThanOrEqual(300);
  });

  test.each([
    ["delete table ip kube-proxy", "deleted table ip kube-proxy"],
    ["delete rule ip nat PREROUTING handle 4", "deleted rule of chain PREROUTING of table ip nat (handle 4)"],
    [
      "add element ip kube-proxy m { tcp . 1 : drop }",
      "added element of m of table ip kube-proxy ({ tcp . 1 : drop })",
    ],
    ["delete set ip6 kube-proxy s", "deleted set s of table ip6 kube-proxy"],
  ])("%s is told as: %s", (line, text) => {
    const event = parseEvent(line);
    expect(event && describeEvent(event)).toBe(text);
  });
});
