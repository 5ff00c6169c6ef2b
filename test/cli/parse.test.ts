/** The flag grammar: pflag's forms, Go's values, every mistake named. */
import { describe, expect, test } from "bun:test";
import { flag } from "../../src/cli/flag.ts";
import { flags } from "../../src/cli/flags.ts";
import { nearest } from "../../src/cli/nearest.ts";
import { parseFlags, scanFlags } from "../../src/cli/parse.ts";
import type { SettingValue } from "../../src/config/settings.ts";

function given(...argv: readonly string[]): Readonly<Record<string, SettingValue>> {
  return Object.fromEntries(parseFlags(flags, argv).given);
}

function mistakes(...argv: readonly string[]): readonly string[] {
  return scanFlags(flags, argv).faults.map(({ field, message, hint }) => `${field}: ${message}${hint && `; ${hint}`}`);
}

describe("forms", () => {
  test.each([
    [["-v=2"], { v: 2 }],
    [["-v2"], { v: 2 }],
    [["-v", "2"], { v: 2 }],
    [["--v=2"], { v: 2 }],
    [["--v", "2"], { v: 2 }],
    [["-hv2"], { help: true, v: 2 }],
    [["-h=false"], { help: false }],
    [["--proxy-mode", "ipvs"], { "proxy-mode": "ipvs" }],
    [["--proxy_mode=ipvs"], { "proxy-mode": "ipvs" }],
    [["--cluster-cidr="], { "cluster-cidr": "" }],
    [["--cluster-cidr", ""], { "cluster-cidr": "" }],
    [["--kubeconfig=a=b"], { kubeconfig: "a=b" }],
    [["--kubeconfig", "--master"], { kubeconfig: "--master" }],
    [["--cleanup", "--init-only=f"], { cleanup: true, "init-only": false }],
    [["--version"], { version: true }],
    [["--version=raw"], { version: "raw" }],
    [["--v=1", "--v=3"], { v: 3 }],
  ] as const)("%j", (argv, expected) => {
    expect(given(...argv)).toEqual(expected);
  });

  test("words are kept in order, also flags after --", () => {
    const table = [flag("", "wide", "bool", "")];
    expect(parseFlags(table, ["a", "--wide", "b", "--", "--wide", "-x"]).words).toEqual(["a", "b", "--wide", "-x"]);
    expect(parseFlags(table, ["-"]).words).toEqual(["-"]);
  });
});

describe("values", () => {
  test.each(["1", "t", "T", "true", "TRUE", "True"])("bool %s is true", (text) => {
    expect(given(`--masquerade-all=${text}`)).toEqual({ "masquerade-all": true });
  });

  test.each(["0", "f", "F", "false", "FALSE", "False"])("bool %s is false", (text) => {
    expect(given(`--masquerade-all=${text}`)).toEqual({ "masquerade-all": false });
  });

  test.each([
    ["--conntrack-min=0x10", 16],
    ["--conntrack-min=0b11", 3],
    ["--conntrack-min=0o17", 15],
    ["--conntrack-min=017", 15],
    ["--conntrack-min=1_000", 1000],
    ["--conntrack-min=-1", -1],
    ["--conntrack-min=2147483647", 2147483647],
  ] as const)("%s", (arg, expected) => {
    expect(given(arg)).toEqual({ "conntrack-min": expected });
  });

  test("lists add up over commas and repetitions, with CSV quotes", () => {
    const argv = ["--nodeport-addresses=primary,10.0.0.0/8", '--nodeport-addresses="a,b",c'];
    expect(given(...argv)).toEqual({ "nodeport-addresses": ["primary", "10.0.0.0/8", "a,b", "c"] });
    expect(given("--nodeport-addresses=")).toEqual({ "nodeport-addresses": [] });
  });

  test("gates add up, the last one wins", () => {
    const argv = ["--feature-gates=AllBeta=true, AllAlpha=T,", "--feature-gates=AllBeta=0"];
    expect(given(...argv)).toEqual({ "feature-gates": { AllBeta: false, AllAlpha: true } });
  });

  test("durations are milliseconds", () => {
    expect(given("--config-sync-period=1h30m", "--ipvs-udp-timeout=0")).toEqual({
      "config-sync-period": 5_400_000,
      "ipvs-udp-timeout": 0,
    });
  });
});

describe("mistakes", () => {
  test.each([
    [["--proxi-mode=ipvs"], "--proxi-mode: is no flag of this program; did you mean --proxy-mode?"],
    [
      ["--iptables-sync-periods=1s"],
      "--iptables-sync-periods: is no flag of this program; did you mean --iptables-sync-period?",
    ],
    [["-x"], "-x: is no flag of this program; see --help"],
    [["-config=x"], "-config=x: is no flag of this program; did you mean --config?"],
    [["--config"], "--config: needs a value: --config=file"],
    [["-v"], "-v: needs a value: -v=Level"],
    [["-v=two"], "-v: must be a level, a whole number from 0"],
    [["-v=-1"], "-v: must be a level, a whole number from 0"],
    [["--masquerade-all=yes"], "--masquerade-all: must be true or false"],
    [["--masquerade-all="], "--masquerade-all: must be true or false"],
    [["--conntrack-min=2147483648"], "--conntrack-min: must be a whole number of 32 bits"],
    [["--conntrack-min=08"], "--conntrack-min: must be a whole number of 32 bits"],
    [["--conntrack-min="], "--conntrack-min: must be a whole number of 32 bits"],
    [["--kube-api-qps=fast"], "--kube-api-qps: must be a number"],
    [["--config-sync-period=20"], "--config-sync-period: must be a duration with a unit, such as 20s or 1h30m"],
    [["--feature-gates=AllBeta"], '--feature-gates: must be name=true or name=false, not "AllBeta"'],
    [["--vmodule=a=b"], '--vmodule: must be pattern=N,..., not "a=b"'],
    [["--version=v1.2.3"], "--version: must be true, false or raw"],
  ] as const)("%j", (argv, expected) => {
    expect(mistakes(...argv)).toEqual([expected]);
  });

  test("all at once", () => {
    expect(mistakes("--nope", "--cleanup=maybe", "--v").length).toBe(3);
  });

  test("a value with control characters stays on its line", () => {
    expect(() => given("--bind-address=\n\u001b[31mx")).toThrow(/^--bind-address: "\\n\\u001b\[31mx": must be/);
    expect(() => given("--no\n\u001b[31m\u202epe")).toThrow(/^--no\\u\{a\}\\u\{1b\}\[31m\\u\{202e\}pe: is no flag/);
  });
});

test("the nearest word", () => {
  const words = ["proxy-mode", "profiling", "cleanup", "cluster-cidr"];
  expect(nearest("proxy-everything", words)).toBe("proxy-mode");
  expect(nearest("clean-up", words)).toBe("cleanup");
  expect(nearest("CLUSTER_CIDRS", words)).toBe("cluster-cidr");
  expect(nearest("x", [])).toBeUndefined();
});
