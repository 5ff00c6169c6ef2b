/** Drift, clean-up, blame and hostile text against real kernels, with both variants of iptables. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cleanup, leftovers } from "../../../src/backends/iptables/cleanup.ts";
import { type IptablesState, iptables } from "../../../src/backends/iptables/index.ts";
import { comment, printRule, probability } from "../../../src/tools/iptables.ts";
import { canonical } from "./canonical.ts";
import { Namespace, readIn } from "./namespace.ts";
import { context, legacy, manyServices, planOf, service } from "./plans.ts";

const foreign = [
  "*nat\n:MINE - [0:0]\n:KUBE-HOSTPORT - [0:0]\n-A MINE -s 1.1.1.1/32 -j RETURN\n-A PREROUTING -j MINE\n-A POSTROUTING -s 2.2.2.2/32 -j ACCEPT\nCOMMIT\n",
  '*filter\n:OTHER - [0:0]\n-A OTHER -p tcp -m tcp --dport 22 -j ACCEPT\n-A INPUT -j OTHER\n-A FORWARD -m comment --comment "not ours" -j ACCEPT\nCOMMIT\n',
];

const inputs = [
  ...manyServices(6, 3),
  service(20, [1, 2], {
    loadBalancerIPs: ["203.0.113.5"],
    sourceRanges: ["1.2.3.0/24"],
    affinitySeconds: 30,
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 30080 }],
  }),
  service(21, [], { externalIPs: ["198.51.100.1"] }),
];

describe.each([
  ["nft", context],
  ["legacy", legacy],
] as const)("iptables-%s", (variant, given) => {
  let ns: Namespace;
  let state: IptablesState;

  beforeAll(async () => {
    ns = await Namespace.open(variant);
    expect(ns.exec("iptables-restore", ["--noflush"], foreign).stderr).toBe("");
    state = iptables.desired(planOf(inputs, given), given, undefined);
    repair();
  });
  afterAll(() => ns.close());

  function repair(): void {
    const reading = iptables.observe(given);
    const observed = readIn(ns, reading);
    ns.run(iptables.diff({ kind: "observed", observed }, state, given, 0).steps);
  }

  function drifts(): string[] {
    const reading = iptables.inspect(state, given);
    return readIn(ns, reading).map((drift) => `${drift.kind} ${drift.what}`);
  }

  /** Ours in the canonical form; what a fault takes from others is not to be brought back. */
  const own = (save: string): string[] => {
    const lines = canonical(save).split("\n");
    return lines.filter((line) => line.includes("KUBE-") && !line.includes("HOSTPORT"));
  };

  const svc = (): string => /KUBE-SVC-\w+/.exec(state.services.get("ns/svc-2")?.text ?? "")?.[0] ?? "";

  test("nothing is reported where nothing changed", () => {
    expect(drifts()).toEqual([]);
  });

  test.each<readonly [string, () => readonly (readonly string[])[], RegExp]>([
    ["a flushed nat table", () => [["-t", "nat", "-F"]], /^rule nat KUBE-MARK-MASQ: 0 rules instead of 1$/],
    [
      "a nat table without chains of ours",
      () => [
        ["-t", "nat", "-F"],
        ["-t", "nat", "-X"],
      ],
      /^table nat: all our chains are gone$/,
    ],
    ["a mangle table without the canary", () => [["-t", "mangle", "-X"]], /^table mangle: all our chains are gone$/],
    [
      "one jump",
      () => [
        [
          "-t",
          "nat",
          "-D",
          "PREROUTING",
          "-m",
          "comment",
          "--comment",
          "kubernetes service portals",
          "-j",
          "KUBE-SERVICES",
        ],
      ],
      /^jump nat: missing: -A PREROUTING .* -j KUBE-SERVICES$/,
    ],
    ["the localnet rule", () => [["-F", "KUBE-FIREWALL"]], /^jump filter: missing: -A KUBE-FIREWALL/],
    [
      "one rule",
      () => [["-t", "nat", "-D", svc(), "1"]],
      /^rule nat KUBE-SVC-\w+ \(ns\/svc-2\): 3 rules instead of 4$/,
    ],
    [
      "one dispatch rule",
      () => [["-t", "nat", "-D", "KUBE-SERVICES", "1"]],
      /^rule nat KUBE-SERVICES: \d+ rules instead of \d+$/,
    ],
    [
      "one chain",
      () => [
        ["-F", "KUBE-EXTERNAL-SERVICES"],
        ["-D", "INPUT", "4"],
        ["-D", "FORWARD", "4"],
        ["-X", "KUBE-EXTERNAL-SERVICES"],
      ],
      /^chain filter KUBE-EXTERNAL-SERVICES: the chain is gone$/,
    ],
    [
      "a rule too many",
      () => [["-t", "nat", "-A", svc(), "-j", "RETURN"]],
      /^rule nat KUBE-SVC-\w+ \(ns\/svc-2\): 5 rules instead of 4$/,
    ],
  ])("%s is noticed and repaired", (_, commands, what) => {
    const before = ns.save("iptables");
    for (const args of commands()) expect(ns.exec("iptables", args).stderr.replace(/^# Warning.*\n/, "")).toBe("");
    expect(drifts().find((drift) => what.test(drift))).toBeDefined();
    repair();
    expect(drifts()).toEqual([]);
    expect(own(ns.save("iptables"))).toEqual(own(before));
  });

  test("clean-up leaves what was there before, twice", async () => {
    const own = await Namespace.open(variant);
    own.exec("iptables-restore", ["--noflush"], foreign);
    const before = canonical(own.save("iptables"));
    const reading = iptables.observe(given);
    const look = leftovers(given);
    expect(look.parse(own.run(look.steps))).toBe(false);
    own.run(iptables.diff({ kind: "observed", observed: readIn(own, reading) }, state, given, 0).steps);
    expect(look.parse(own.run(look.steps))).toBe(true);
    expect(own.save("iptables")).toContain(":KUBE-SVC-");
    for (let i = 0; i < 2; i++) {
      own.run(cleanup(given, readIn(own, reading)));
      expect(withoutEmptyTables(canonical(own.save("iptables")))).toBe(withoutEmptyTables(before));
    }
    expect(cleanup(given, readIn(own, reading))).toEqual([]);
    own.close();
  });

  test("clean-up of more chains than one transaction holds", async () => {
    const own = await Namespace.open(variant);
    const many = iptables.desired(planOf(manyServices(80, 8), given), given, undefined);
    const reading = iptables.observe(given);
    own.run(iptables.diff({ kind: "observed", observed: readIn(own, reading) }, many, given, 0).steps);
    own.run(cleanup(given, readIn(own, reading)));
    expect(canonical(own.save("iptables"))).not.toContain("KUBE-");
    own.close();
  });

  test("a chain of ours that a foreign chain uses stays, the rest goes", async () => {
    const own = await Namespace.open(variant);
    const reading = iptables.observe(given);
    own.run(iptables.diff({ kind: "observed", observed: readIn(own, reading) }, state, given, 0).steps);
    own.exec(
      "iptables-restore",
      ["--noflush"],
      [
        "*nat\n:CNI-DN - [0:0]\n-A CNI-DN -j KUBE-MARK-MASQ\nCOMMIT\n*filter\n-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\nCOMMIT\n",
      ],
    );
    own.run(cleanup(given, readIn(own, reading)));
    expect(withoutEmptyTables(canonical(own.save("iptables")))).toBe(
      [
        "*filter\n:INPUT ACCEPT\n-A INPUT -j KUBE-FIREWALL\n:KUBE-FIREWALL -\n-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\n:OUTPUT ACCEPT\n-A OUTPUT -j KUBE-FIREWALL\n",
        "*nat\n:CNI-DN -\n-A CNI-DN -j KUBE-MARK-MASQ\n:KUBE-MARK-MASQ -\n-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n",
      ].join(""),
    );
    own.close();
  });

  test("a match that the tool does not know is blamed on its Service", async () => {
    const own = await Namespace.open(variant);
    const reading = iptables.observe(given);
    const step = iptables.diff({ kind: "observed", observed: readIn(own, reading) }, state, given, 0).steps[0];
    if (step?.kind !== "exec") throw new Error("no restore");
    const broken = {
      ...step,
      input: step.input?.map((piece) => piece.replace("-m recent --set", "-m absent --set")) ?? [],
    };
    const result = own.exec(broken.tool, broken.args, broken.input);
    expect(result.exitCode).not.toBe(0);
    expect(iptables.blame(broken, result.stderr)).toEqual(["ns/svc-20"]);
    own.close();
  });

  test("hostile comments come back as the one word they went in, probabilities digit by digit", async () => {
    const own = await Namespace.open(variant);
    const texts = [
      '" -j ACCEPT',
      "\\",
      '\\"',
      "it's",
      "a\nCOMMIT\n*filter\n-A INPUT -j ACCEPT",
      "é☃",
      "x y".repeat(200),
      "#",
      "-j",
      "$(reboot) `id`",
    ];
    const rules = texts.map((text) => printRule({ chain: "T", words: [comment(text), ["-j", "RETURN"]] }));
    for (let n = 2; n <= 400; n += 7)
      rules.push(
        printRule({
          chain: "T",
          words: [
            ["-m", "statistic", "--mode", "random", "--probability", probability(n)],
            ["-j", "RETURN"],
          ],
        }),
      );
    expect(own.exec("iptables-restore", ["--noflush"], ["*nat\n:T - [0:0]\n", ...rules, "COMMIT\n"]).stderr).toBe("");
    expect(
      own
        .exec("iptables-save", ["-t", "nat"])
        .stdout.split("\n")
        .filter((l) => l.startsWith("-A"))
        .join("\n"),
    ).toBe(rules.join("").trimEnd());
    own.close();
  });
});

test("a large nat table is read once, not chain by chain, and every rule in it counts", async () => {
  const ns = await Namespace.open("nft");
  const state = iptables.desired(planOf(manyServices(300, 6)), context, undefined);
  const reading = iptables.observe(context);
  ns.run(iptables.diff({ kind: "observed", observed: readIn(ns, reading) }, state, context, 0).steps);
  const look = iptables.inspect(state, context);
  const reads = look.steps.filter((s) => s.kind === "exec" && s.tool.startsWith("iptables"));
  expect(reads.map((s) => (s.kind === "exec" ? s.tool : ""))).toEqual([
    "iptables-save",
    "iptables-save",
    "iptables-save",
  ]);
  expect(look.parse(ns.run(look.steps))).toEqual([]);
  ns.exec("iptables", ["-t", "nat", "-D", "OUTPUT", "1"]);
  ns.exec("iptables", ["-t", "nat", "-D", "KUBE-SERVICES", "3"]);
  expect(look.parse(ns.run(look.steps)).map((d) => `${d.kind} ${d.what}`)).toEqual([
    "rule nat KUBE-SERVICES: 300 rules instead of 301",
    'jump nat: missing: -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  ]);
  ns.close();
});

test("above 1,000 endpoints rules carry no comments, below they do again", async () => {
  const ns = await Namespace.open("nft");
  const small = manyServices(100, 10);
  const large = [...small, service(500, [900_001])];
  let state: IptablesState | undefined;
  const reading = iptables.observe(context);
  const notes: boolean[] = [];
  for (const list of [small, large, small]) {
    const to = iptables.desired(planOf(list), context, state);
    const from =
      state === undefined
        ? ({ kind: "observed", observed: readIn(ns, reading) } as const)
        : ({ kind: "state", state } as const);
    ns.run(iptables.diff(from, to, context, 0).steps);
    const again = iptables.diff({ kind: "observed", observed: readIn(ns, reading) }, to, context, 0);
    expect(again.steps.filter((s) => s.kind === "exec")).toEqual([]);
    const save = ns.save("iptables");
    notes.push(/-A KUBE-S(VC|EP)\S+ .*--comment/.test(save));
    expect(save).toContain("this must be the last rule in this chain");
    state = to;
  }
  expect(notes).toEqual([true, false, true]);
  ns.close();
});

test("a table that another program's rule hides from iptables-save is written without doubling anything", async () => {
  const ns = await Namespace.open("nft");
  const state = iptables.desired(planOf(inputs), context, undefined);
  const reading = iptables.observe(context);
  const sync = (): void => {
    const observed = readIn(ns, reading);
    ns.run(iptables.diff({ kind: "observed", observed }, state, context, 0).steps);
  };
  sync();
  const before = canonical(ns.save("iptables"));
  ns.exec("iptables", ["-t", "filter", "-A", "KUBE-FIREWALL", "-m", "mark", "--mark", "0x8000/0x8000", "-j", "DROP"]);
  const add = (table: string, chain: string): string => `add rule ip ${table} ${chain} numgen random mod 2 1 accept`;
  expect(ns.exec("nft", ["-f", "-"], [`${add("nat", "PREROUTING")}\n${add("filter", "INPUT")}\n`]).stderr).toBe("");
  expect(ns.save("iptables")).not.toContain("-A KUBE-SERVICES");
  const look = iptables.inspect(state, context);
  expect(look.parse(ns.run(look.steps))).toEqual([]);
  ns.exec("iptables", ["-t", "nat", "-F", "KUBE-SERVICES"]);
  ns.exec("iptables", ["-t", "nat", "-D", "OUTPUT", "1"]);
  sync();
  sync();
  for (const [table, chain] of [
    ["nat", "PREROUTING"],
    ["filter", "INPUT"],
  ] as const) {
    const handles = ns.exec("nft", ["-a", "list", "chain", "ip", table, chain]).stdout;
    const handle = /numgen.*# handle (\d+)/.exec(handles)?.[1] ?? "";
    expect(ns.exec("nft", ["delete", "rule", "ip", table, chain, "handle", handle]).stderr).toBe("");
  }
  ns.exec("iptables", ["-t", "filter", "-D", "KUBE-FIREWALL", "-m", "mark", "--mark", "0x8000/0x8000", "-j", "DROP"]);
  expect(canonical(ns.save("iptables"))).toBe(before);
  ns.close();
});

/** iptables-nft keeps a table that was once used. */
function withoutEmptyTables(save: string): string {
  return save
    .split(/^(?=\*)/m)
    .filter((table) => table.split("\n").length > 2)
    .sort()
    .join("");
}
