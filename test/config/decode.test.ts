/** Files: what YAML may say, what is refused and where, what is only warned of. */
import { describe, expect, test } from "bun:test";
import { ConfigError } from "../../src/config/config-error.ts";
import { decodeConfig } from "../../src/config/decode.ts";
import type { SettingValue } from "../../src/config/settings.ts";

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

function values(body: string): Readonly<Record<string, SettingValue>> {
  return Object.fromEntries(decodeConfig("c.yaml", head + body).settings.values);
}

function faults(text: string): readonly string[] {
  try {
    decodeConfig("c.yaml", text);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.lines();
    throw error;
  }
}

function warnings(body: string): readonly string[] {
  return decodeConfig("c.yaml", head + body).warnings.map(({ message }) => message);
}

describe("read as Go reads YAML", () => {
  test.each([
    ["bindAddressHardFail: yes", { bindAddressHardFail: true }],
    ["bindAddressHardFail: off", { bindAddressHardFail: false }],
    ["oomScoreAdj: 0x10", { oomScoreAdj: 16 }],
    ["oomScoreAdj: 010", { oomScoreAdj: 8 }],
    ["oomScoreAdj: 0o17", { oomScoreAdj: 15 }],
    ["oomScoreAdj: 1_0", { oomScoreAdj: 10 }],
    ["oomScoreAdj: null", {}],
    ["oomScoreAdj: ~", {}],
    ["oomScoreAdj:", {}],
    ["clientConnection: {qps: 1.5}", { "clientConnection.qps": 1.5 }],
    ["portRange: 2020-01-01", { portRange: "2020-01-01" }],
    ["portRange: 1:30", { portRange: "1:30" }],
    ['portRange: "1.35"', { portRange: "1.35" }],
    ["logging: {flushFrequency: 5000000000}", { "logging.flushFrequency": 5000 }],
    ["logging: {options: {json: {infoBufferSize: 4}}}", { "logging.options.json.infoBufferSize": "4" }],
    ["nodePortAddresses: []", { nodePortAddresses: [] }],
    ["featureGates: {AllBeta: on}", { featureGates: { AllBeta: true } }],
    ["featureGates: {__proto__: true}", { featureGates: Object.fromEntries([["__proto__", true]]) }],
    [
      "logging: {vmodule: [{filePattern: a, verbosity: 2}]}",
      { "logging.vmodule": [{ filePattern: "a", verbosity: 2 }] },
    ],
    ["iptables: &a {masqueradeBit: 3}\nnftables: *a", { "iptables.masqueradeBit": 3, "nftables.masqueradeBit": 3 }],
    [
      "iptables: &a {masqueradeBit: 3, masqueradeAll: true}\nnftables:\n  masqueradeBit: 4\n  <<: *a",
      {
        "iptables.masqueradeBit": 3,
        "iptables.masqueradeAll": true,
        "nftables.masqueradeAll": true,
        "nftables.masqueradeBit": 4,
      },
    ],
    ["iptables: {masqueradeBit: 3}\niptables: {masqueradeAll: true}", { "iptables.masqueradeAll": true }],
  ] as const)("%j", (body, expected) => {
    expect(values(body)).toEqual(expected);
  });

  test("a byte order mark at the very beginning is nothing", () => {
    expect(faults(`\ufeff${head}`)).toEqual([]);
  });

  test("many aliases cost nothing", () => {
    const bomb = ["a: &a [x,x,x,x,x,x,x,x,x]"];
    for (const [to, from] of ["ba", "cb", "dc", "ed", "fe", "gf", "hg", "ih"])
      bomb.push(`${to}: &${to} [${`*${from},`.repeat(9)}]`);
    expect(warnings(`${bomb.join("\n")}\nnodePortAddresses: *i\n`.replace("nodePortAddresses: *i\n", "")).length).toBe(
      1,
    );
  });
});

describe("refused, with its place", () => {
  test.each([
    [
      "iptables: 3",
      "c.yaml:3:11: iptables: 3: must be a section of fields: masqueradeBit, masqueradeAll, localhostNodePorts, syncPeriod, minSyncPeriod",
    ],
    ["mode: [x]", "c.yaml:3:7: mode: must be a single value"],
    ["mode: true", "c.yaml:3:7: mode: true: must be text; put it in quotes"],
    ["oomScoreAdj: 1.5", "c.yaml:3:14: oomScoreAdj: 1.5: must be a whole number, without quotes"],
    ["oomScoreAdj: 99999999999999", "c.yaml:3:14: oomScoreAdj: 99999999999999: must fit into 32 bits"],
    ['bindAddressHardFail: "true"', 'c.yaml:3:22: bindAddressHardFail: "true": must be true or false, without quotes'],
    ["clientConnection: {qps: .nan}", "c.yaml:3:25: clientConnection.qps: null: must be a number, without quotes"],
    ["configSyncPeriod: 20", "c.yaml:3:19: configSyncPeriod: 20: must be a duration with a unit, such as 20s or 1h30m"],
    ["nodePortAddresses: primary", 'c.yaml:3:20: nodePortAddresses: "primary": must be a list of texts'],
    ["nodePortAddresses:\n- 1", "c.yaml:4:3: nodePortAddresses[0]: 1: must be text; put it in quotes"],
    ["featureGates: {A: 1}", "c.yaml:3:19: featureGates.A: 1: must be true or false, without quotes"],
    ["featureGates: [A]", "c.yaml:3:15: featureGates: must be a mapping of gate names to true or false"],
    [
      "logging: {vmodule: [a]}",
      'c.yaml:3:21: logging.vmodule[0]: "a": must be {filePattern: text, verbosity: whole number}',
    ],
    [
      "logging: {options: {text: {infoBufferSize: x}}}",
      'c.yaml:3:44: logging.options.text.infoBufferSize: "x": must be a quantity such as "0", "512Ki" or "4Mi"',
    ],
  ])("%j", (body, expected) => {
    expect(faults(head + body)).toEqual([expected]);
  });

  test.each([
    ["- a\n", "c.yaml:1:1: must be a mapping with kind: KubeProxyConfiguration"],
    ["x", "c.yaml:1:1: must be a mapping with kind: KubeProxyConfiguration"],
    ["# nothing\n", "c.yaml: kind: missing; must be KubeProxyConfiguration"],
    ["kind: KubeProxyConfiguration\n", "c.yaml: apiVersion: missing; must be kubeproxy.config.k8s.io/v1alpha1"],
    ["kind: [x]\n", "c.yaml:1:7: kind: must be KubeProxyConfiguration"],
  ])("%j", (text, expected) => {
    expect(faults(text)).toEqual([expected]);
  });

  test("all of them at once", () => {
    expect(faults(`${head}mode: 1\noomScoreAdj: x\nconfigSyncPeriod: 1\n`).length).toBe(3);
  });
});

describe("warned of, once", () => {
  test("unknown and repeated fields, each with line and column", () => {
    expect(warnings("turbo: 1\nmode: ipvs\nmode: iptables\nipvs: {Scheduler: rr}\nconntrack:\n  max: 5\n")).toEqual([
      "c.yaml: unknown or repeated fields are ignored: turbo (unknown at 3:1), mode (again at 5:1; the last one counts), " +
        "ipvs.Scheduler (unknown at 6:8, did you mean scheduler?), conntrack.max (unknown at 8:3)",
    ]);
  });

  test("a name that would break the line does not", () => {
    expect(warnings('"a\\nb\\u001b[31m": 1')).toEqual([
      "c.yaml: unknown or repeated fields are ignored: a?b?[31m (unknown at 3:1)",
    ]);
  });

  test("more documents", () => {
    expect(warnings("mode: ipvs\n---\nmode: nftables\n")).toEqual([
      "c.yaml: only the first YAML document is read; what follows the --- is ignored",
    ]);
  });
});
