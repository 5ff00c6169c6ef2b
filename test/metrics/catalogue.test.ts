/** The catalogue against conformance/metrics.tsv, what kube-proxy v1.36.2 was seen to have. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  componentMetrics,
  localhostGate,
  metricsOf,
  processMetrics,
  upstreamMetrics,
} from "../../src/metrics/catalogue.ts";
import type { ProxyMode } from "../../src/model/context.ts";

function readTable(): readonly string[] {
  for (const folder of [join(import.meta.dir, "../conformance"), "/work/shared/conformance"]) {
    try {
      return readFileSync(join(folder, "metrics.tsv"), "utf8").trim().split("\n").slice(1);
    } catch {
      // The next folder.
    }
  }
  throw new Error("conformance/metrics.tsv not found");
}

const table = readTable().map((line) => {
  const [name = "", type = "", labels = "", modes = "", buckets = "", stability = ""] = line.split("\t");
  return {
    name,
    type,
    labels: labels.split(",").filter(Boolean),
    modes: modes.replace(/ \(.*\)/, "").split(","),
    gated: modes.includes("gate on"),
    buckets: buckets
      .split(" ")
      .filter((bucket) => bucket !== "" && bucket !== "+Inf")
      .map(Number),
    stability,
  };
});
const ours = new Map([...upstreamMetrics, ...componentMetrics, ...processMetrics].map((spec) => [spec.name, spec]));

test("the same names, no more, no less", () => {
  expect([...ours.keys()].sort()).toEqual(table.map((row) => row.name).sort());
});

describe("like kube-proxy", () => {
  test.each(table)("$name", (row) => {
    const spec = ours.get(row.name);
    expect(spec?.type as string).toBe(row.type);
    expect([...(spec?.labels ?? [])].sort()).toEqual([...row.labels].sort());
    expect([...(spec?.buckets ?? [])]).toEqual(row.buckets);
    expect([...(spec?.modes ?? ["iptables", "ipvs", "nftables"])].sort()).toEqual([...row.modes].sort() as ProxyMode[]);
    expect(spec?.gate).toBe(row.gated ? localhostGate : undefined);
    expect(/^\[(\w+)\]/.exec(spec?.help ?? "")?.[1] ?? "").toBe(row.stability);
  });
});

test.each(["iptables", "ipvs", "nftables"] as const)("%s has those of its mode", (mode) => {
  const has = new Set(metricsOf(mode, new Set([localhostGate])).map((spec) => spec.name));
  for (const row of table) expect([row.name, has.has(row.name)]).toEqual([row.name, row.modes.includes(mode)]);
  expect(metricsOf(mode, new Set()).some((spec) => spec.gate !== undefined)).toBe(false);
});
