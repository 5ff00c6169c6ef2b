/** nft's texts: what is printed, that it reads back, and that nothing hostile gets out of its quotes. */
import { describe, expect, test } from "bun:test";
import { IPv4, IPv6 } from "../../src/model/family.ts";
import {
  cut,
  type NftChain,
  type NftSet,
  printChainRemoval,
  printElement,
  printRule,
  printTableRemoval,
  printTransaction,
  quote,
} from "../../src/tools/nft.ts";
import { parseDuration, parseTable } from "../../src/tools/nft-list.ts";
import * as rule from "../../src/tools/nft-rule.ts";

describe("comments", () => {
  test.each([
    ["ns/svc:port", '"ns/svc:port"'],
    ['a" ; flush ruleset ; "b', `"a' ; flush ruleset ; 'b"`],
    ["two\nlines\tand\0zero", '"two lines and zero"'],
    ["back\\slash", '"back/slash"'],
    ["ünïcode", '" n code"'],
    ["x".repeat(200), `"${"x".repeat(128)}"`],
  ])("%j", (text, quoted) => {
    expect(quote(text)).toBe(quoted);
  });

  test("cutting twice changes nothing", () => {
    const once = cut('"\\é'.repeat(100));
    expect(cut(once)).toBe(once);
    expect(Buffer.byteLength(once)).toBe(128);
  });
});

describe("rules", () => {
  const two = [
    { ip: "10.0.0.1", port: 80 },
    { ip: "10.0.0.2", port: 81 },
  ];
  test.each([
    [rule.dnatToOneOf(IPv4, "tcp", two.slice(0, 1)), "meta l4proto tcp dnat to 10.0.0.1:80"],
    [
      rule.dnatToOneOf(IPv4, "udp", two),
      "meta l4proto udp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 81 }",
    ],
    [rule.dnatTo("sctp", { ip: "fd00::1", port: 9 }), "meta l4proto sctp dnat to [fd00::1]:9"],
    [rule.dropUnlessFrom(IPv4, ["198.51.100.0/24"]), "ip saddr != 198.51.100.0/24 drop"],
    [
      rule.dropUnlessFrom(IPv4, ["198.51.100.0/24", "192.0.2.7/32", "192.0.2.0/28", "192.0.2.0/28"]),
      "ip saddr != { 192.0.2.0/28, 198.51.100.0/24 } drop",
    ],
    [rule.dropUnlessFrom(IPv6, ["fd00::/8", "2001:db8::9/128"]), "ip6 saddr != { 2001:db8::9, fd00::/8 } drop"],
    [rule.dropUnlessFrom(IPv4, []), "drop"],
    [rule.setMark(0x4000), "meta mark set meta mark | 0x00004000"],
    [
      rule.masqueradeMarked(0x20_0000, false),
      "meta mark & 0x00200000 != 0x00000000 meta mark set meta mark ^ 0x00200000 masquerade",
    ],
    [rule.fromPods(IPv4, { kind: "bridge", name: "cni0" }, true), 'iifname != "cni0"'],
    [rule.fromPods(IPv4, { kind: "prefix", prefix: "veth" }, false), 'iifname "veth*"'],
    [rule.fromPods(IPv4, { kind: "prefix", prefix: 'a*"; x' }, false), 'iifname "a\\*_;_x*"'],
    [rule.nodePortAddress(IPv6, undefined, true), "fib daddr type local ip6 daddr != ::1"],
    [rule.identifier("ns/svc; drop {\n}"), "ns/svc__drop____"],
  ])("%p", (actual, text) => {
    expect(actual).toBe(text);
  });

  test("a comment follows the expression", () => {
    expect(printRule({ expression: "drop", comment: "why" })).toBe('drop comment "why"');
  });
});

const sets: readonly NftSet[] = [
  { kind: "map", name: "m", type: "inet_proto . inet_service", comment: "a map" },
  { kind: "set", name: "s", type: "ipv4_addr" },
  { kind: "set", name: "affinity-x", type: "ipv4_addr", dynamicTimeout: 10_800 },
];
const chains: readonly NftChain[] = [
  { name: "base", hook: { type: "nat", hook: "output", priority: -100 }, rules: [{ expression: "jump plain" }] },
  {
    name: "plain",
    comment: "not a rule",
    rules: [
      { expression: "meta l4proto . th dport vmap @m", comment: "with { braces" },
      { expression: rule.goToOneOf(["a", "b"]) },
    ],
  },
];

describe("transactions", () => {
  test("chains and sets read back as they were", () => {
    const text = printTransaction(IPv4, { addSets: sets, addChains: chains }).join("");
    const table = parseTable(text, "ip kube-proxy");
    expect(Object.fromEntries(table.chains)).toEqual({
      base: { hook: { type: "nat", hook: "output", priority: -100, accept: true }, rules: ["jump plain"] },
      plain: {
        hook: undefined,
        rules: [
          'meta l4proto . th dport vmap @m comment "with { braces"',
          "numgen random mod 2 vmap { 0 : goto a, 1 : goto b }",
        ],
      },
    });
    expect(
      [...table.sets].map(([name, { kind, type, flags, timeout }]) => ({ name, kind, type, flags, timeout })),
    ).toEqual([
      { name: "m", kind: "map", type: "inet_proto . inet_service : verdict", flags: [], timeout: 0 },
      { name: "s", kind: "set", type: "ipv4_addr", flags: [], timeout: 0 },
      { name: "affinity-x", kind: "set", type: "ipv4_addr", flags: ["dynamic", "timeout"], timeout: 10_800 },
    ]);
  });

  test("nothing to do is no input", () => {
    expect(printTransaction(IPv4, {})).toEqual([]);
  });

  test("references are gone before what they refer to, and there before what needs them", () => {
    const text = printTransaction(IPv6, {
      deleteElements: [{ set: "m", key: "tcp . 1" }],
      flushChains: ["f"],
      deleteChains: ["c"],
      deleteSets: ["old"],
      addSets: sets.slice(1, 2),
      addChains: [{ name: "n", rules: [] }],
      addElements: [{ set: "m", key: "tcp . 2", value: "goto n", comment: "ns/x" }],
    }).join("");
    expect(text.split("\n")).toEqual([
      "add table ip6 kube-proxy",
      "delete element ip6 kube-proxy m {",
      "tcp . 1",
      "}",
      "flush chain ip6 kube-proxy f",
      "delete chain ip6 kube-proxy c",
      "delete set ip6 kube-proxy old",
      "table ip6 kube-proxy {",
      "\tset s {",
      "type ipv4_addr",
      "\t}",
      "\tchain n {",
      "\t}",
      "}",
      "add element ip6 kube-proxy m {",
      'tcp . 2 comment "ns/x" : goto n',
      "}",
      "",
    ]);
  });

  test("removals work on what is absent", () => {
    expect(printTableRemoval(IPv4).join("")).toBe("add table ip kube-proxy\ndelete table ip kube-proxy\n");
    expect(printChainRemoval(IPv4, ["x"]).join("")).toBe(
      "add chain ip kube-proxy x\nflush chain ip kube-proxy x\ndelete chain ip kube-proxy x\n",
    );
  });
});

describe("listings", () => {
  test("elements, wrapped lines, foreign objects and other tables", () => {
    const text = `table ip nat {
	chain PREROUTING {
		type nat hook prerouting priority dstnat; policy accept;
	}
}
table ip kube-proxy {
	counter odd {
		packets 0 bytes 0
	}

	map m {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.0.0.1 . tcp . 80 comment "ns/a, b : c" : goto x,
			     10.0.0.2 . tcp . 80 : drop }
	}

	set affinity-1 {
		type ipv4_addr
		size 65535
		flags dynamic,timeout
		timeout 1m30s
		elements = { 10.1.1.1 timeout 1m30s expires 55s }
	}

	chain x {
		type filter hook prerouting priority dstnat - 10; policy drop;
		comment "not a rule"
		ip saddr { 10.0.0.1,
			   10.0.0.2 } drop
	}
}
`;
    const { chains, sets } = parseTable(text, "ip kube-proxy");
    expect([...chains.keys()]).toEqual(["x"]);
    expect(chains.get("x")).toEqual({
      hook: { type: "filter", hook: "prerouting", priority: -110, accept: false },
      rules: ["ip saddr { 10.0.0.1, 10.0.0.2 } drop"],
    });
    expect([...(sets.get("m")?.elements ?? [])]).toEqual([
      ["10.0.0.1 . tcp . 80", { value: "goto x", comment: "ns/a, b : c" }],
      ["10.0.0.2 . tcp . 80", { value: "drop", comment: undefined }],
    ]);
    expect(sets.get("affinity-1")?.timeout).toBe(90);
    expect([...(sets.get("affinity-1")?.elements.keys() ?? [])]).toEqual(["10.1.1.1"]);
    expect(parseTable(text, "ip6 kube-proxy").chains.size).toBe(0);
  });

  test("an element as it is listed", () => {
    const element = { set: "m", key: "tcp . 80", value: "drop", comment: "ns/x" };
    expect(printElement(element)).toBe('tcp . 80 comment "ns/x" : drop');
  });

  test.each([
    ["3h", 10_800],
    ["1d1h1m1s", 90_061],
    ["500ms", 0],
    ["soon", Number.NaN],
  ])("duration %s", (text, seconds) => {
    expect(parseDuration(text)).toBe(seconds);
  });
});
