/** Dashboard and alert rules use only metrics and labels that exist, are valid, and the alerts fire when they should. */
import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { allGates } from "../../src/config/feature-gates.ts";
import { type MetricSpec, metricsOf } from "../../src/metrics/catalogue.ts";
import { root } from "./document.ts";

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly description: string };
}
interface Panel {
  readonly title: string;
  readonly type: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}

const rulesFile = `${root}/scripts/prometheus-rules.yaml`;
const groups: readonly { readonly rules: readonly Rule[] }[] = parse(readFileSync(rulesFile, "utf8")).groups;
const rules = groups.flatMap((g) => g.rules);
const dashboard: { readonly panels: readonly Panel[] } = JSON.parse(
  readFileSync(`${root}/scripts/grafana-dashboard.json`, "utf8"),
);
const expressions = [
  ...rules.map((r) => ({ where: r.alert, expr: r.expr })),
  ...dashboard.panels.flatMap((p) => (p.targets ?? []).map(({ expr }) => ({ where: p.title, expr }))),
];

const gates = new Set(allGates({ featureGates: {} }).map((g) => g.name));
const specs = new Map(
  (["iptables", "nftables", "ipvs"] as const)
    .flatMap((mode) => metricsOf(mode, gates))
    .map((spec) => [spec.name, spec]),
);
/** What Prometheus adds. */
const outside = new Set(["job", "instance", "le"]);

function specOf(name: string): MetricSpec | undefined {
  const plain = specs.get(name);
  if (plain !== undefined) return plain.type === "histogram" ? undefined : plain;
  const histogram = specs.get(name.replace(/_(bucket|sum|count)$/, ""));
  return histogram?.type === "histogram" ? histogram : undefined;
}

test("every expression uses metrics and labels that exist", () => {
  const faults: string[] = [];
  for (const { where, expr } of expressions) {
    const names = expr.match(/\b(?:kubeproxy|rest_client|kubernetes|process)_[a-z0-9_]+\b|\bup(?=\{)/g) ?? [];
    if (names.length === 0) faults.push(`${where}: no metric`);
    const labels = new Set(outside);
    for (const name of names) {
      const spec = specOf(name);
      if (spec === undefined && name !== "up") faults.push(`${where}: ${name}`);
      for (const label of spec?.labels ?? []) labels.add(label);
    }
    const used = [
      ...[...expr.matchAll(/\b(?:by|without) \(([^)]*)\)/g)].flatMap((m) => (m[1] ?? "").split(", ")),
      ...[...expr.matchAll(/\{([^}]*)\}/g)].flatMap((m) =>
        [...(m[1] ?? "").matchAll(/(\w+)(?:=|!=)/g)].map((l) => l[1] ?? ""),
      ),
    ];
    for (const label of used) if (!labels.has(label)) faults.push(`${where}: label ${label}`);
  }
  expect(faults).toEqual([]);
  expect(expressions.length).toBeGreaterThan(30);
});

test("panels have their own place, a title and something to show", () => {
  const cells = new Set<string>();
  for (const { title, type, gridPos, targets } of dashboard.panels) {
    expect(title).not.toBe("");
    if (type !== "row") expect(targets?.length).toBeGreaterThan(0);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect(cells.has(`${x} ${y}`)).toBe(false);
        cells.add(`${x} ${y}`);
      }
    }
    expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
  }
});

const promtool = Bun.which("promtool");
if (promtool === null) console.log("docs: promtool is not here (package prometheus): rules are not checked with it");

function check(...args: readonly string[]): string {
  const done = Bun.spawnSync([promtool ?? "promtool", ...args]);
  return done.exitCode === 0 ? "" : `${done.stdout}${done.stderr}`;
}

test.skipIf(promtool === null)("promtool takes the rules, and the dashboard's expressions as rules", () => {
  expect(check("check", "rules", rulesFile)).toBe("");
  const dir = mkdtempSync("/tmp/kp-docs-");
  try {
    const records = dashboard.panels
      .flatMap((p) => p.targets ?? [])
      .map(({ expr }, i) => ({
        record: `panel:${i}`,
        expr: expr.replaceAll("$__rate_interval", "5m").replaceAll(/\$(job|instance)/g, ".*"),
      }));
    writeFileSync(`${dir}/panels.json`, JSON.stringify({ groups: [{ name: "panels", rules: records }] }));
    expect(check("check", "rules", `${dir}/panels.json`)).toBe("");
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test.skipIf(promtool === null)("alerts fire when they should, and stay silent on a healthy node", () => {
  expect(check("test", "rules", `${root}/test/docs/alerts.yaml`)).toBe("");
});
