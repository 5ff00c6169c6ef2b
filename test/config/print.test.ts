/** The printed configuration: the recorded /configz byte for byte, YAML that reads back, and sameness of meaning. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { Config } from "../../src/config/config.ts";
import { clusterCIDRs, masquerade, syncPeriods } from "../../src/config/config.ts";
import { decodeConfig } from "../../src/config/decode.ts";
import { makeConfig } from "../../src/config/defaults.ts";
import { allGates, gateOn } from "../../src/config/feature-gates.ts";
import { configObject, printConfig, printConfigz, sameMeaning } from "../../src/config/print.ts";
import { noSettings } from "../../src/config/settings.ts";

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

function config(body: string): Config {
  return makeConfig(decodeConfig("c.yaml", head + body).settings);
}

test("/configz is as recorded", () => {
  const body = `clientConnection: {kubeconfig: /var/lib/kube-proxy/kubeconfig.conf, contentType: application/json}
hostnameOverride: node-1
enableProfiling: true
iptables: {minSyncPeriod: 100ms}
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
conntrack: {maxPerCore: 0, min: 0}
`;
  const recorded = readFileSync(join(import.meta.dir, "../conformance/http/10249_configz.txt"), "utf8");
  expect(printConfigz(config(body))).toBe(recorded.trimEnd().split("\n").at(-1) ?? "");
});

describe("YAML reads back as what it was", () => {
  test.each([
    "",
    "yes",
    "null",
    "1.35",
    "0x1",
    "a: b",
    "# x",
    "'",
    '"',
    "::",
    "a\nb",
    "-",
    "1h",
    "2020-01-01",
    "~",
    "1e3",
    "é\u2028",
  ])("%j", (text) => {
    const object = { ...config(""), hostnameOverride: text };
    expect(parse(printConfig(object)).hostnameOverride).toBe(text);
    expect(makeConfig(decodeConfig("c.yaml", printConfig(object)).settings).hostnameOverride).toBe(text);
  });

  test("everything", () => {
    const whole = config(`featureGates: {AllBeta: true, AllAlpha: false}
logging: {vmodule: [{filePattern: "a*", verbosity: 3}], options: {json: {splitStream: true, infoBufferSize: 1Mi}}}
mode: ipvs
ipvs: {excludeCIDRs: [10.0.0.0/8, "fd00::/8"], tcpTimeout: 90s}
nodePortAddresses: [primary]
winkernel: {networkName: net}
windowsRunAsService: true
`);
    expect(parse(printConfig(whole))).toEqual(configObject(whole));
    expect(makeConfig(decodeConfig("c.yaml", printConfig(whole)).settings)).toEqual(whole);
  });

  test("keys are sorted", () => {
    const names: readonly string[] = printConfig(makeConfig(noSettings)).match(/^\w+/gm) ?? [];
    expect(names).toEqual([...names].sort());
  });
});

describe("sameness of meaning", () => {
  test.each([
    ["mode: iptables", "mode: ''", true],
    ["configSyncPeriod: 15m", "configSyncPeriod: 900s", true],
    ["turbo: 1", "", true],
    ["nodePortAddresses: [10.0.0.0/8, primary]", "nodePortAddresses: [primary, 10.0.0.0/8]", true],
    ["clusterCIDR: 10.0.0.0/8,fd00::/8", "clusterCIDR: fd00::/8, 10.0.0.0/8", true],
    ["ipvs: {syncPeriod: 5s}", "", true],
    ["mode: nftables", "", false],
    ["iptables: {syncPeriod: 5s}", "", false],
    ["featureGates: {AllBeta: true}", "", false],
    ["nodePortAddresses: [primary]", "", false],
  ])("%j and %j: %p", (a, b, same) => {
    expect(sameMeaning(config(a), config(b))).toBe(same);
  });
});

describe("what depends on the mode", () => {
  test("periods, mark and gates", () => {
    const nft = config("mode: nftables\nnftables: {syncPeriod: 9s, masqueradeBit: 3, masqueradeAll: true}");
    expect(syncPeriods(nft)).toMatchObject({ syncPeriod: 9000, minSyncPeriod: 1000 });
    expect(masquerade(nft)).toEqual({ all: true, mark: 8 });
    expect(masquerade(config("mode: ipvs\niptables: {masqueradeBit: 31}"))).toEqual({ all: false, mark: 0x80000000 });
    expect(clusterCIDRs(config("clusterCIDR: 10.0.0.0/8, fd00::/8"))).toEqual(["10.0.0.0/8", "fd00::/8"]);
    expect(clusterCIDRs(config(""))).toEqual([]);
  });

  test("all gates, with stage and state", () => {
    const gates = allGates(config("featureGates: {AllAlpha: true, KubeProxyIPVS: false}"));
    expect(gates.map(({ name }) => name)).toEqual([...new Set(gates.map(({ name }) => name))].sort());
    expect(gates).toContainEqual({ name: "KubeProxyIPVS", stage: "DEPRECATED", enabled: false });
    expect(gates).toContainEqual({ name: "KubeProxyNFTablesLocalhostNodePorts", stage: "ALPHA", enabled: true });
    expect(gates).toContainEqual({ name: "NFTablesProxyMode", stage: "", enabled: true });
    expect(gates).toContainEqual({ name: "AllBeta", stage: "BETA", enabled: false });
  });

  test("gates follow their stage's switch unless given", () => {
    expect(gateOn(config(""), "KubeProxyNFTablesCompact")).toBe(false);
    expect(gateOn(config("featureGates: {AllAlpha: true}"), "KubeProxyNFTablesCompact")).toBe(true);
    expect(gateOn(config("featureGates: {AllBeta: false}"), "WatchListClient")).toBe(false);
    expect(gateOn(config("featureGates: {AllBeta: false, WatchListClient: true}"), "WatchListClient")).toBe(true);
    expect(gateOn(config("featureGates: {AllAlpha: false, AllBeta: false}"), "KubeProxyIPVS")).toBe(true);
  });
});
