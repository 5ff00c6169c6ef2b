/** The rules of DESIGN section 3, read from the imports and the files themselves. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Glob } from "bun";

const root = `${import.meta.dir}/..`;
const files = [...new Glob("src/**/*.ts").scanSync(root)].sort();

/** Area → areas it may import from. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  model: [],
  tools: ["model"],
  backends: ["model", "tools"],
  conntrack: ["model", "tools"],
  explain: ["model", "tools", "backends"],
  config: ["model"],
  host: ["model", "tools", "conntrack"],
  kube: ["model"],
  health: ["model"],
  metrics: ["model"],
};

/** Areas without any side effect. */
const pure = ["model", "tools", "backends", "conntrack", "explain", "config"];
/** The one pure file that may call Bun: a hash function. */
const exempt = ["src/model/digest.ts"];

function areaOf(file: string): string {
  return file.split("/")[1]?.replace(/\.ts$/, "") ?? "";
}

function importsOf(text: string): readonly string[] {
  return [...text.matchAll(/^\s*(?:import|export)\b[^;]*?from\s+"([^"]+)"|import\(\s*"([^"]+)"\s*\)/gm)].map(
    (m) => m[1] ?? m[2] ?? "",
  );
}

function code(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "");
}

test("there are sources to look at", () => {
  expect(files.length).toBeGreaterThan(20);
});

test("areas import only what they may", () => {
  const breaches: string[] = [];
  for (const file of files) {
    const may = allowed[areaOf(file)];
    if (may === undefined) continue;
    for (const path of importsOf(readFileSync(`${root}/${file}`, "utf8"))) {
      if (!path.startsWith(".")) continue;
      const target = areaOf(new URL(path, `file:///${file}`).pathname.slice(1));
      if (target !== areaOf(file) && !may.includes(target)) breaches.push(`${file} imports ${path}`);
    }
  }
  expect(breaches).toEqual([]);
});

test("pure areas touch no clock, process, network, file or logger", () => {
  const breaches: string[] = [];
  for (const file of files.filter((f) => pure.includes(areaOf(f)) && !exempt.includes(f))) {
    const text = readFileSync(`${root}/${file}`, "utf8");
    for (const path of importsOf(text))
      if (/^(node:|bun|consola|prom-client|@kubernetes)/.test(path)) breaches.push(`${file} imports ${path}`);
    const found =
      /\bBun\.|\bprocess\.|\bDate\.now\b|\bnew Date\(\)|\bsetTimeout\b|\bsetInterval\b|\bMath\.random\b|\bconsole\.|\bfetch\(|\bperformance\./.exec(
        code(text),
      );
    if (found !== null) breaches.push(`${file} uses ${found[0]}`);
  }
  expect(breaches).toEqual([]);
});

test("prom-client stays in metrics, consola in the logger, exit in main", () => {
  const breaches: string[] = [];
  for (const file of files) {
    const text = readFileSync(`${root}/${file}`, "utf8");
    for (const path of importsOf(text)) {
      if (path === "prom-client" && areaOf(file) !== "metrics") breaches.push(`${file} imports ${path}`);
      if (path.startsWith("consola") && file !== "src/app/log.ts") breaches.push(`${file} imports ${path}`);
    }
    if (/\bprocess\.exit\(/.test(code(text)) && file !== "src/main.ts") breaches.push(`${file} exits`);
  }
  expect(breaches).toEqual([]);
});

test("files are short and say what they are for", () => {
  const breaches: string[] = [];
  for (const file of files) {
    const text = readFileSync(`${root}/${file}`, "utf8");
    const lines = text.split("\n").length - 1;
    if (lines > 300) breaches.push(`${file}: ${lines} lines`);
    if (!/^(#!.*\n)?\/(\*\*|\/)\s/.test(text)) breaches.push(`${file}: does not open with a sentence on its job`);
  }
  for (const file of new Glob("test/**/*.ts").scanSync(root)) {
    const lines = readFileSync(`${root}/${file}`, "utf8").split("\n").length - 1;
    if (lines > 400) breaches.push(`${file}: ${lines} lines`);
  }
  expect(breaches).toEqual([]);
});

test("names say something", () => {
  expect(files.filter((f) => /(util|helper|manager|misc|common)/i.test(f.split("/").at(-1) ?? ""))).toEqual([]);
});
