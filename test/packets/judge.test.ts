/** The judge of the packet table: it must notice every way in which a packet can end wrongly. */
import { expect, test } from "bun:test";
import type { Outcome } from "../lab/probe.ts";
import { nodeAddress, outsideAddress, type Pod, podAddress } from "../lab/topology.ts";
import { faultOf, spreadFault } from "./judge.ts";
import { dropped, type Fate, kept, masqueraded, type Packet, refused } from "./row.ts";

const family = "IPv4" as const;
const by = (pod: Pod, source: string): Outcome => ({ kind: "answered", by: podAddress(pod, family), source });
const client = outsideAddress.IPv4;

function judged(fate: Fate, outcomes: readonly Outcome[], from: Packet["from"] = "outside"): string | undefined {
  const packet: Packet = { from, to: "web", door: "load balancer", fate };
  return faultOf({ packet, fate, family }, outcomes);
}

const cases: readonly (readonly [string, Fate, readonly Outcome[], string | undefined])[] = [
  ["both pods, source kept", kept("b", "c"), [by("b", client), by("c", client)], undefined],
  ["masqueraded though it should not be", kept("b"), [by("b", nodeAddress.IPv4)], "pod b saw 192.0.2.10"],
  ["another client's address", kept("b"), [by("b", "192.0.2.2")], "pod b saw 192.0.2.2"],
  ["not masqueraded though it should be", masqueraded("b"), [by("b", client)], "pod b saw 192.0.2.1"],
  ["one pod never chosen", kept("b", "c"), [by("b", client), by("b", client)], "2 connections never reached c"],
  ["a pod that must not be chosen", kept("b"), [by("c", client)], "got an answer by c (saw 192.0.2.1)"],
  ["one of many lost", kept("b"), [by("b", client), { kind: "dropped" }], "got dropped"],
  ["refused, not dropped", dropped, [{ kind: "refused" }], "got refused"],
  ["dropped, not refused", refused, [{ kind: "dropped" }], "got dropped"],
  ["answered, not dropped", dropped, [by("b", client)], "got an answer by b (saw 192.0.2.1)"],
  ["an error is not a refusal", refused, [{ kind: "failed", errno: 113 }], "got errno 113"],
  ["refused", refused, [{ kind: "refused" }], undefined],
];

for (const [name, fate, outcomes, fault] of cases) {
  test(name, () => {
    expect(judged(fate, outcomes)).toBe(fault);
  });
}

test("the node's own connections may carry any of its addresses", () => {
  expect(judged(kept("b"), [by("b", nodeAddress.IPv4)], "node")).toBeUndefined();
  expect(judged(kept("b"), [by("b", "172.30.0.1")], "node")).toBe("pod b saw 172.30.0.1");
});

test("shares far from equal are told", () => {
  const even = Array.from({ length: 300 }, (_, i) => by(i % 3 === 0 ? "a" : i % 3 === 1 ? "b" : "c", client));
  expect(spreadFault(even, ["a", "b", "c"], family)).toBeUndefined();
  const skewed = Array.from({ length: 300 }, (_, i) => by(i < 200 ? "a" : i < 250 ? "b" : "c", client));
  expect(spreadFault(skewed, ["a", "b", "c"], family)).toContain("got 200 of 300");
  expect(spreadFault([{ kind: "dropped" }, ...even], ["a", "b", "c"], family)).toBe("dropped");
});
