import { describe, expect, test } from "bun:test";
import { IPv4, IPv6 } from "../../src/model/family.ts";
import { deleteArgs, flowStream, listUdpArgs, parseUdpFlow, type UdpFlow } from "../../src/tools/conntrack.ts";

const dnat: UdpFlow = { dst: "10.96.0.10", dport: 53, replySrc: "10.1.0.3", replySport: 5353 };

describe("parseUdpFlow", () => {
  test.each<readonly [string, string, UdpFlow | undefined]>([
    [
      "unreplied",
      "udp      17 29 src=10.1.0.2 dst=10.96.0.10 sport=4000 dport=53 [UNREPLIED] src=10.1.0.3 dst=10.1.0.2 sport=5353 dport=4000 mark=0 use=1",
      dnat,
    ],
    [
      "assured, with counters in both halves",
      "udp      17 119 src=10.1.0.2 dst=10.96.0.10 sport=4000 dport=53 packets=3 bytes=210 src=10.1.0.3 dst=10.1.0.2 sport=5353 dport=4000 packets=3 bytes=390 [ASSURED] mark=16384 secctx=system_u use=2",
      dnat,
    ],
    [
      "IPv6",
      "udp      17 29 src=fd00:1::2 dst=fd00:10::a sport=4000 dport=53 src=fd00:1::3 dst=fd00:1::2 sport=53 dport=4000 mark=0 use=1",
      { dst: "fd00:10::a", dport: 53, replySrc: "fd00:1::3", replySport: 53 },
    ],
    [
      "masqueraded: the answer goes elsewhere, the endpoint is the same",
      "udp      17 29 src=192.0.2.1 dst=10.96.0.10 sport=4000 dport=53 src=10.1.0.3 dst=192.0.2.10 sport=5353 dport=61000 use=1",
      dnat,
    ],
    [
      "another zone",
      "udp      17 29 src=10.1.0.2 dst=10.96.0.10 sport=4000 dport=53 [UNREPLIED] src=10.1.0.3 dst=10.1.0.2 sport=5353 dport=4000 mark=0 zone=5 use=1",
      undefined,
    ],
    [
      "a zone in one direction",
      "udp      17 29 src=10.1.0.2 dst=10.96.0.10 sport=4000 dport=53 zone-orig=6 src=10.1.0.3 dst=10.1.0.2 sport=5353 dport=4000 use=1",
      undefined,
    ],
    [
      "TCP",
      "tcp      6 431999 ESTABLISHED src=1.1.1.1 dst=2.2.2.2 sport=1 dport=2 src=2.2.2.2 dst=1.1.1.1 sport=2 dport=1 [ASSURED] use=1",
      undefined,
    ],
    [
      "udplite",
      "udplite  136 29 src=1.1.1.1 dst=2.2.2.2 sport=1 dport=2 src=2.2.2.2 dst=1.1.1.1 sport=2 dport=1 use=1",
      undefined,
    ],
    ["the first half only", "udp      17 29 src=10.1.0.2 dst=10.96.0.10 sport=4000 dport=53", undefined],
    [
      "a port beyond 65535",
      "udp 17 29 src=1.1.1.1 dst=2.2.2.2 sport=1 dport=65536 src=2.2.2.2 dst=1.1.1.1 sport=2 dport=1",
      undefined,
    ],
    [
      "an address that is none",
      "udp 17 29 src=1.1.1.1 dst=2.2;-F sport=1 dport=2 src=2.2.2.2 dst=1.1.1.1 sport=2 dport=1",
      undefined,
    ],
    ["nothing", "", undefined],
  ])("%s", (_, line, flow) => {
    expect(parseUdpFlow(line)).toEqual(flow);
  });
});

test("a stream cut anywhere gives the same flows", () => {
  const line = (i: number) =>
    `udp      17 29 src=10.1.0.2 dst=10.96.0.${i} sport=4000 dport=53 [UNREPLIED] src=10.1.0.3 dst=10.1.0.2 sport=5353 dport=4000 mark=0 use=1`;
  const text = `${[1, 2, 3].map(line).join("\n")}\ngarbage\n${line(4)}`;
  const wanted = ["10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4"];
  for (const size of [1, 7, 150, 10_000]) {
    const seen: string[] = [];
    const stream = flowStream((flow) => seen.push(flow.dst));
    for (let i = 0; i < text.length; i += size) stream.push(text.slice(i, i + size));
    stream.end();
    expect(seen).toEqual(wanted);
  }
});

test("arguments", () => {
  expect(listUdpArgs(IPv6).join(" ")).toBe("-L -p udp -f ipv6");
  expect(deleteArgs(IPv4, dnat, false).join(" ")).toBe(
    "-D -f ipv4 -p udp -d 10.96.0.10 --dport 53 -r 10.1.0.3 --reply-port-src 5353 -w 0",
  );
  expect(deleteArgs(IPv4, dnat, true).join(" ")).toBe("-D -f ipv4 -p udp -d 10.96.0.10 --dport 53 -w 0");
});
