/** The lab itself, without a proxy: every place reaches every pod, with its own address, by every transport. */
import { expect, test } from "bun:test";
import { Lab } from "./lab.ts";
import { addressBytes, addressText } from "./libc.ts";
import type { Attempt } from "./probe.ts";
import { initAckPacket, initPacket, parseSctp } from "./sctp.ts";
import {
  families,
  hostPort,
  nodeAddress,
  nodeAddresses,
  type Place,
  type Pod,
  placeAddress,
  placeSpace,
  podAddress,
  podPort,
} from "./topology.ts";

test("addresses become bytes and text again", () => {
  for (const ip of ["10.1.2.3", "fd00:1:1::a", "::1", "::", "fd00::1:28", "2001:db8:1:2:3:4:5:6"]) {
    expect(addressText(addressBytes(ip))).toBe(ip);
  }
});

test("SCTP packets carry the checksum and cookie of RFC 9260", () => {
  const init = initPacket(20000, 80, 7);
  expect(parseSctp(init)).toEqual({ sourcePort: 20000, port: 80, chunk: 1, tag: 7, cookie: "" });
  const parsed = parseSctp(init);
  const answer = parsed && initAckPacket(parsed, "10.1.1.1 10.2.2.2");
  expect(answer && parseSctp(answer)).toMatchObject({
    sourcePort: 80,
    port: 20000,
    chunk: 2,
    cookie: "10.1.1.1 10.2.2.2",
  });
});

const isRoot = process.getuid?.() === 0;
if (!isRoot) {
  console.log("lab: skipped: needs root, for network namespaces");
}

test.skipIf(!isRoot)("all places reach all pods directly", async () => {
  const lab = new Lab();
  try {
    lab.build();
    const places: readonly Place[] = ["pod-a", "pod-b", "pod-c", "node", "outside", "outside-2"];
    const pods: readonly Pod[] = ["a", "b", "c", "d", "m1", "m40"];
    const expected: string[] = [];
    const attempts: Attempt[] = [];
    for (const family of families) {
      for (const from of places) {
        const source = placeAddress(from, family);
        const common = {
          namespace: lab.space(placeSpace(from)),
          ...(source === undefined ? {} : { source }),
          patience: 5000,
        };
        for (const pod of pods) {
          for (const kind of pod.startsWith("m") ? (["tcp"] as const) : (["tcp", "udp", "sctp"] as const)) {
            attempts.push({ ...common, kind, ip: podAddress(pod, family), port: podPort });
            expected.push(`answered ${podAddress(pod, family)} ${source ?? "node"}`);
          }
        }
        attempts.push({ ...common, kind: "tcp", ip: nodeAddress[family], port: hostPort });
        expected.push(`answered ${nodeAddress[family]} ${source ?? "node"}`);
        attempts.push({ ...common, kind: "tcp", ip: nodeAddress[family], port: 9 });
        expected.push("refused");
        attempts.push({ ...common, kind: "udp", ip: nodeAddress[family], port: 9 });
        expected.push("refused");
      }
    }
    const seen = (await lab.probe(attempts)).map((outcome) => {
      const fromNode =
        outcome.kind === "answered" && [...nodeAddresses.IPv4, ...nodeAddresses.IPv6].includes(outcome.source);
      return outcome.kind === "answered"
        ? `answered ${outcome.by} ${fromNode ? "node" : outcome.source}`
        : outcome.kind;
    });
    expect(seen).toEqual(expected);
  } finally {
    lab.end();
  }
});
