import { expect, test } from "bun:test";
import { namedLines } from "../../src/host/named-lines.ts";

const input = ["*nat\n:KUBE-A - [0:0]\n-A KUBE", "-A -j NOSUCH\nCOMMIT\n", "last"];

// Texts as printed by iptables 1.8.9, nft 1.0.6, ipset 7.17 and iproute2 6.1.
test.each<readonly [string, string, readonly (readonly [number, string])[]]>([
  [
    "iptables-nft-restore",
    "iptables-nft-restore v1.8.9 (nf_tables): Chain 'NOSUCH' does not exist\nError occurred at line: 3\nTry ...",
    [[3, "-A KUBE-A -j NOSUCH"]],
  ],
  [
    "iptables-nft-restore, at commit",
    "iptables-restore v1.8.9 (nf_tables): \nline 2: CHAIN_ADD failed (Busy): chain X\nline 4: RULE_APPEND failed",
    [
      [2, ":KUBE-A - [0:0]"],
      [4, "COMMIT"],
    ],
  ],
  ["iptables-legacy-restore, at commit", "iptables-restore: line 4 failed", [[4, "COMMIT"]]],
  [
    "nft",
    "/dev/stdin:3:17-19: Error: No symbol type information\nadd rule ip t c foo bar\n",
    [[3, "-A KUBE-A -j NOSUCH"]],
  ],
  [
    "ipset",
    "ipset v7.17: Error in line 1: Set cannot be created: set with the same name already exists",
    [[1, "*nat"]],
  ],
  ["ip -batch", 'Cannot find device "nolo"\nCommand failed -:2', [[2, ":KUBE-A - [0:0]"]]],
  ["a last line without its end", "line 5 failed", [[5, "last"]]],
  ["a line that is not there", "line 77 failed", []],
  ["nothing named", "No such file or directory", []],
])("%s", (_, stderr, wanted) => {
  expect(namedLines(stderr, input).map(({ number, text }) => [number, text] as const)).toEqual([...wanted]);
});

test("at most five, and none without input", () => {
  const stderr = Array.from({ length: 50 }, (_, i) => `line ${i + 1} failed`).join("\n");
  const many = [Array.from({ length: 60 }, (_, i) => `text ${i + 1}`).join("\n")];
  expect(namedLines(stderr, many).map(({ number }) => number)).toEqual([1, 2, 3, 4, 5]);
  expect(namedLines(stderr, undefined)).toEqual([]);
});
