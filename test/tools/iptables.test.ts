/** Printing and reading of iptables rules: identity, and nothing that gets out of its quotes. */
import { describe, expect, test } from "bun:test";
import {
  comment,
  commentText,
  parseRule,
  printRule,
  probability,
  type Rule,
  splitWords,
} from "../../src/tools/iptables.ts";
import { failedLines, nobody, ownerLine, ownerOfLine, section } from "../../src/tools/iptables-restore.ts";
import { linesOf, parseSave } from "../../src/tools/iptables-save.ts";

const rules: Rule[] = [
  { chain: "KUBE-SVC-A", words: [["-j", "KUBE-SEP-B"]] },
  {
    chain: "X",
    words: [
      ["!", "-s", "10.0.0.0/8"],
      ["-d", "1.2.3.4/32"],
      ["!", "-i", "veth+"],
      ["-p", "tcp"],
      comment("a/b c"),
      ["-m", "tcp", "--dport", "80"],
      ["-j", "DNAT", "--to-destination", "[fd00::1]:80"],
    ],
  },
  {
    chain: "X",
    words: [
      ["-m", "mark", "!", "--mark", "0x4000/0x4000"],
      ["-j", "RETURN"],
    ],
  },
  {
    chain: "X",
    words: [comment("-j DROP"), ["-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT"], ["-j", "DROP"]],
  },
  { chain: "X", words: [comment("")] },
];

test.each(rules.map((rule) => [printRule(rule).trimEnd(), rule] as const))(
  "%s is read back as it was",
  (line, rule) => {
    expect(parseRule(line)).toEqual(rule);
  },
);

test("a rule prints in the form of iptables-save", () => {
  expect(rules.slice(1, 3).map(printRule)).toEqual([
    '-A X ! -s 10.0.0.0/8 -d 1.2.3.4/32 ! -i veth+ -p tcp -m comment --comment "a/b c" -m tcp --dport 80 -j DNAT --to-destination [fd00::1]:80\n',
    "-A X -m mark ! --mark 0x4000/0x4000 -j RETURN\n",
  ]);
});

describe("hostile text", () => {
  const texts = [
    '" -j ACCEPT',
    "\\",
    '\\"',
    "'",
    "a\nCOMMIT\n*filter",
    "\r\n-A INPUT -j ACCEPT",
    "\u0000x",
    "ünïcode ☃",
    "-j",
    "!",
    "#",
    " ",
    '""',
    "$(reboot)",
    "x".repeat(300),
  ];
  test.each(texts)("%j stays one word of one line", (text) => {
    const line = printRule({ chain: "C", words: [comment(text), ["-j", "RETURN"]] });
    expect(line.slice(0, -1)).toMatch(/^[ -~]+$/);
    expect(splitWords(line)).toEqual(["-A", "C", "-m", "comment", "--comment", commentText(text), "-j", "RETURN"]);
  });
  test.each(texts)("%j elsewhere than in a comment too", (text) => {
    const line = printRule({ chain: "C", words: [["-i", text]] });
    expect(line.slice(0, -1)).toMatch(/^[ -~]+$/);
    expect(splitWords(line)).toEqual(["-A", "C", "-i", text.replace(/[^ -~]/gu, "?")]);
  });
  test("a comment holds 255 bytes", () => {
    expect(commentText("é".repeat(400))).toBe("?".repeat(255));
  });
});

test("an open quote is no rule, nor are other lines", () => {
  expect(['-A X -m comment --comment "abc', ":X - [0:0]", "COMMIT", "", "-D X -j Y"].map(parseRule)).toEqual(
    Array(5).fill(undefined),
  );
});

test("probabilities are what iptables-save prints", () => {
  expect([2, 3, 7, 400].map(probability)).toEqual(["0.50000000000", "0.33333333349", "0.14285714272", "0.00249999994"]);
});

test("a save is tables of chains with their lines", () => {
  const text =
    "# x\n*nat\n:PREROUTING ACCEPT [0:0]\n:A - [0:0]\n:B - [0:0]\n-A PREROUTING -j A\n-A A -j B\n-A A -m nfacct --nfacct-name  n\nCOMMIT\n*filter\n:INPUT DROP [3:4]\nCOMMIT\n";
  const tables = parseSave(text);
  expect([...tables.keys()]).toEqual(["nat", "filter"]);
  expect(Object.fromEntries(tables.get("nat")?.chains ?? [])).toEqual({
    PREROUTING: "-A PREROUTING -j A\n",
    A: "-A A -j B\n-A A -m nfacct --nfacct-name n\n",
    B: "",
  });
  expect(Object.fromEntries(tables.get("filter")?.chains ?? [])).toEqual({ INPUT: "" });
});

test.each(["", "*nat", "-A", "-A X", ":", ":X", "junk\n\n*\n-A Y z"])(
  "a broken save %j is read without a fault",
  (text) => {
    expect(() => parseSave(text)).not.toThrow();
  },
);

test("lines keep their newlines", () => {
  expect(linesOf("a\nb\n")).toEqual(["a\n", "b\n"]);
  expect(linesOf("a\nb")).toEqual(["a\n", "b\n"]);
  expect(linesOf("")).toEqual([]);
});

describe("errors", () => {
  // Recorded from iptables 1.8.9, both variants.
  test.each([
    [
      "iptables-nft-restore v1.8.9 (nf_tables): Couldn't load match `recent':No such file or directory\n\nError occurred at line: 15\nTry",
      [15],
    ],
    [
      "iptables-nft-restore v1.8.9 (nf_tables): \nline 5: CHAIN_DEL failed (Device or resource busy): chain KUBE-D",
      [5],
    ],
    ["iptables-restore: line 2 failed", [2]],
    ["Another app is currently holding the xtables lock", []],
  ])("%j names lines", (stderr, lines) => {
    expect(failedLines(stderr)).toEqual(lines);
  });

  test("a line belongs to the owner above it in its section", () => {
    const input = section("nat", [
      ":M - [0:0]\n",
      ownerLine('a/"b'),
      ":A - [0:0]\n-A A -j M\n",
      ownerLine("c/d"),
      ":B - [0:0]\n",
      nobody,
      "-A KUBE -j A\n",
    ]);
    const owners = Array.from({ length: 11 }, (_, i) => ownerOfLine(input, i + 1));
    expect(owners).toEqual([
      undefined,
      undefined,
      'a/"b',
      'a/"b',
      'a/"b',
      "c/d",
      "c/d",
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});
