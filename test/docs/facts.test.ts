/** Files, flags, metrics, exit codes, gates, variables and events named in the documents exist, and ours are all named there. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { Glob } from "bun";
import { promised } from "../../scripts/glibc-floor.ts";
import { commands } from "../../src/cli/commands.ts";
import { extraTopic, flags } from "../../src/cli/flags.ts";
import { allGates } from "../../src/config/feature-gates.ts";
import { metricsOf, ownMetrics } from "../../src/metrics/catalogue.ts";
import { documents, root, tableRows } from "./document.ts";

const [readme, contributing] = documents;
if (readme === undefined || contributing === undefined) throw new Error("README.md and CONTRIBUTING.md are needed");

const modules = await Promise.all(commands.map(async (c) => ({ ...c, module: (await c.load()).command })));
const sources = [...new Glob("src/**/*.ts").scanSync(root)].map((f) => readFileSync(`${root}/${f}`, "utf8")).join("\n");

/** Flags of other programs that the documents use. */
const foreign: Readonly<Record<string, string>> = {
  "--build-arg": "podman",
  "--write": "biome",
  "--no-audit": "npm",
  "--no-fund": "npm",
};

const flagPattern = /(?<![\w-])--[a-z][a-z0-9-]*/g;
const flagsIn = (text: string): ReadonlySet<string> => new Set(text.match(flagPattern) ?? []);
const proxyFlags = new Set(flags.map(({ name }) => `--${name}`));
const commandFlags = new Map(
  modules.map(({ name, module }) => [name, new Set(module.flags.map((f) => `--${f.name}`))]),
);

describe("flags", () => {
  test("all that are named exist", () => {
    const ofScripts = ["scripts/*", "test/*/run.ts"]
      .flatMap((pattern) => [...new Glob(pattern).scanSync(root)])
      .flatMap((file) => [...flagsIn(readFileSync(`${root}/${file}`, "utf8"))]);
    const known = new Set([...proxyFlags, ...[...commandFlags.values()].flatMap((s) => [...s]), ...ofScripts]);
    for (const { file, text } of documents) {
      const unknown = [...flagsIn(text)].filter((f) => !known.has(f) && foreign[f] === undefined);
      expect({ file, unknown }).toEqual({ file, unknown: [] });
    }
    const everything = documents.map((d) => d.text).join("\n");
    expect(Object.keys(foreign).filter((f) => !flagsIn(everything).has(f))).toEqual([]);
  });

  test("a command is shown with its own flags only", () => {
    const faults: string[] = [];
    for (const command of documents.flatMap((d) => d.commands)) {
      const [, sub = ""] = /^(?:\S*\/)?kube-proxy\s+(\S+)/.exec(command) ?? [];
      if (sub === "") continue;
      const own = commandFlags.get(sub) ?? proxyFlags;
      for (const f of flagsIn(command)) if (!own.has(f)) faults.push(`${command}: ${f}`);
    }
    expect(faults).toEqual([]);
  });

  test("all that kube-proxy does not have are named, with the commands that have them", () => {
    const extra = flags.filter((f) => f.topic === extraTopic).map((f) => `--${f.name}`);
    const listed = tableRows(readme.text, "## Configuration").flatMap(([cell = ""]) => [...flagsIn(cell)]);
    expect(extra.filter((f) => !listed.includes(f))).toEqual([]);

    const rows = tableRows(readme.text, "### Subcommands").filter(([, , , , fifth]) => fifth === undefined);
    const described = rows.flatMap(([names = "", where = ""]) =>
      [...flagsIn(names)].map((f) => `${f} ${where.split(", ").sort().join(" ")}`),
    );
    const ownFlags = new Set([...commandFlags.values()].flatMap((s) => [...s]).filter((f) => !proxyFlags.has(f)));
    const real = [...ownFlags].map((f) => {
      const where = [...commandFlags].filter(([, s]) => s.has(f)).map(([name]) => name);
      return `${f} ${where.sort().join(" ")}`;
    });
    expect(described.sort()).toEqual(real.sort());
  });
});

describe("exit codes", () => {
  const rows = tableRows(readme.text, "### Subcommands").filter((row) => row.length === 5);
  const codes = new Map(
    rows
      .slice(1)
      .map(([name = "", ...cells]) => [
        name.replaceAll("`", ""),
        cells.flatMap((cell, code) => (cell === "" ? [] : [code])),
      ]),
  );

  test("of every subcommand, as its help has them", () => {
    for (const { name, module } of modules) {
      const told = /Exit codes?: (.*)$/s.exec(module.about)?.[1] ?? "";
      const helped = [...told.matchAll(/(?:^|, )(\d)\b/g)].map((m) => Number(m[1]));
      expect({ name, codes: codes.get(name) }).toEqual({ name, codes: helped });
      expect(helped.length).toBeGreaterThan(0);
    }
  });

  test("of the proxy itself, as the code gives them", () => {
    const given = new Set([...sources.matchAll(/new Exit\(\s*(\d+)/g)].map((m) => Number(m[1])));
    expect([...given].sort()).toEqual([0, 1]);
    expect(["kube-proxy", "--cleanup", "--init-only"].map((name) => codes.get(name))).toEqual([
      [0, 1],
      [0, 1],
      [0, 1],
    ]);
  });

  test("nothing else is listed", () => {
    const known = ["kube-proxy", "--cleanup", "--init-only", ...modules.map((m) => m.name)];
    expect([...codes.keys()].sort()).toEqual(known.sort());
  });
});

describe("metrics", () => {
  const known = new Set(
    (["iptables", "nftables", "ipvs"] as const)
      .flatMap((mode) => metricsOf(mode, new Set(allGates({ featureGates: {} }).map((g) => g.name))))
      .flatMap(({ name, type }) =>
        type === "histogram" ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
      ),
  );

  test("all that are named exist", () => {
    for (const { file, text } of documents) {
      const named = text.match(/\b(kubeproxy|rest_client|kubernetes|process)_[a-z0-9_]+\b/g) ?? [];
      expect({ file, unknown: named.filter((n) => !known.has(n)) }).toEqual({ file, unknown: [] });
    }
  });

  test("all that kube-proxy does not have are named", () => {
    const listed = tableRows(readme.text, "## Operations").map(([cell = ""]) => cell.replaceAll("`", ""));
    expect(ownMetrics.map((m) => m.name).filter((n) => !listed.includes(n))).toEqual([]);
  });
});

test("files and folders named in the documents are there", () => {
  const missing: string[] = [];
  for (const { file, code, text } of documents) {
    const links = [...text.matchAll(/\]\(([^)#]+)\)/g)].map((m) => m[1] ?? "");
    const paths = code
      .flatMap((c) => c.match(/(?<![\w./-])(?:src|test|scripts|docs|\.ci)\/[\w./{},*-]*/g) ?? [])
      .flatMap(expand);
    for (const path of [...links.filter((l) => !l.includes("://")), ...paths]) {
      if (path.includes("NAME")) continue;
      if (!existsSync(`${root}/${path}`)) missing.push(`${file}: ${path}`);
    }
  }
  expect(missing).toEqual([]);
});

/** `a/{b,c}.ts` → `a/b.ts`, `a/c.ts`; `a/*` → `a`. */
function expand(path: string): readonly string[] {
  const [, before = "", inner = "", after = ""] = /^(.*)\{(.*)\}(.*)$/.exec(path) ?? [];
  if (inner !== "") return inner.split(",").flatMap((one) => expand(before + one + after));
  return [path.replace(/\/?\*$/, "").replace(/[,.]$/, "")];
}

test("links inside the README lead to headings", () => {
  const anchors = [...readme.text.matchAll(/^#+ (.+)$/gm)].map((m) => (m[1] ?? "").toLowerCase().replaceAll(" ", "-"));
  const links = [...readme.text.matchAll(/\]\(#([^)]+)\)/g)].map((m) => m[1] ?? "");
  expect(links.length).toBeGreaterThan(5);
  expect(links.filter((l) => !anchors.includes(l))).toEqual([]);
});

test("feature gates named exist, and every gate with an effect is named", () => {
  const gates = new Set(allGates({ featureGates: {} }).map((g) => g.name));
  const type = /export type GateName =([^;]+);/.exec(readFileSync(`${root}/src/config/feature-gates.ts`, "utf8"))?.[1];
  const withEffect = [...(type ?? "").matchAll(/"(\w+)"/g)].map((m) => m[1] ?? "");
  expect(withEffect.length).toBeGreaterThan(3);
  expect(withEffect.filter((g) => !readme.code.includes(g))).toEqual([]);
  const named = readme.code.filter((c) => /^(KubeProxy|WatchList|Component|Logging)[A-Za-z]+$/.test(c));
  expect(named.filter((g) => !gates.has(g) && !sources.includes(`"${g}"`))).toEqual([]);
});

test("variables and events named are in the code", () => {
  const variables = readme.code.filter((c) => /^(?!CAP_)[A-Z][A-Z0-9]*_[A-Z0-9_]+$/.test(c));
  expect(variables).toContain("NOTIFY_SOCKET");
  const outside = ["test/**/*.ts", "scripts/build", "scripts/kube-proxy.service"]
    .flatMap((pattern) => [...new Glob(pattern).scanSync(root)])
    .filter((file) => !file.startsWith("test/docs/"))
    .map((file) => readFileSync(`${root}/${file}`, "utf8"));
  const places = [sources, ...outside];
  expect(variables.filter((v) => !places.some((text) => text.includes(v)))).toEqual([]);
  const app = [...new Glob("src/app/*.ts").scanSync(root)].map((f) => readFileSync(`${root}/${f}`, "utf8")).join("\n");
  const told = [...app.matchAll(/\bwarn\(\s*"([A-Z][A-Za-z]+)"|reason: "([A-Z][A-Za-z]+)"/g)].map(
    (m) => m[1] ?? m[2] ?? "",
  );
  const line = readme.text.split("\n").find((l) => l.startsWith("Events on the Node"));
  const events = [...(line ?? "").matchAll(/`([A-Z][A-Za-z]+)`/g)].map((m) => m[1] ?? "");
  expect([...new Set(events)].sort()).toEqual([...new Set(told)].sort());
});

test("capabilities are those that test/install measures, and those of the unit", () => {
  const measured = readFileSync(`${root}/test/install/privileges.test.ts`, "utf8");
  const needs = [...measured.matchAll(/^ {2}\["(\w+)", "(\w+)", \[([^\]]*)\]\],$/gm)].map(
    ([, mode, variant, list = ""]) => ({
      mode,
      variant,
      needs: [...list.matchAll(/\w+/g)].map(([name]) => `CAP_${name.toUpperCase()}`),
    }),
  );
  expect(needs.length).toBe(3);
  const rows = tableRows(readme.text, "## Security").filter((row) => row.length === 3);
  for (const need of needs) {
    const cell = rows.find(
      ([mode, variant]) => mode === need.mode && (variant === need.variant || variant === "–"),
    )?.[2];
    expect([...(cell ?? "").matchAll(/CAP_\w+/g)].map(([name]) => name)).toEqual(need.needs);
  }
  const unit = readFileSync(`${root}/scripts/kube-proxy.service`, "utf8");
  expect(unit).toContain(`\nCapabilityBoundingSet=${[...new Set(needs.flatMap((n) => n.needs))].join(" ")}\n`);
});

test("the promised glibc is the one that the release build checks", () => {
  const told = /glibc (\d+\.\d+) or later/.exec(readme.text)?.[1] ?? "";
  expect(Object.values(promised)).toEqual([told, told]);
});

test("the layout table has every folder of src", () => {
  const listed = tableRows(contributing.text, "## Layout").map(([cell = ""]) => cell.replaceAll("`", ""));
  const real = new Set([...new Glob("src/**/*.ts").scanSync(root)].map((f) => f.split("/").slice(0, 2).join("/")));
  expect(listed.slice(1).sort()).toEqual([...real].sort());
});

test("the README is short enough to be read", () => {
  expect(readme.text.split("\n").length).toBeLessThan(480);
});
