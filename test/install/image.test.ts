/** The image recipe: every tool that the program drives is in it, nothing else is, and it copies what the build makes. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { Glob } from "bun";
import { debianPackage } from "../../src/host/tool-path.ts";

const root = `${import.meta.dir}/../..`;
const recipe = readFileSync(`${root}/scripts/Containerfile`, "utf8");

/** In Debian's base system. */
const base = ["unshare", "grep"];

/** Every `tool: "…"` of a step, and the first argument of helpers that make steps. */
function toolsOfSources(): readonly string[] {
  const found = new Set<string>();
  for (const file of new Glob("src/{app,backends,conntrack,host,tools}/**/*.ts").scanSync(root))
    for (const [, tool = ""] of readFileSync(`${root}/${file}`, "utf8").matchAll(/\btool: "([a-z0-9-]+)"/g))
      found.add(tool);
  return [...found];
}

test("its packages are those of the tools, no more and no fewer", () => {
  const tools = toolsOfSources().filter((tool) => !base.includes(tool));
  expect(tools.length).toBeGreaterThan(5);
  expect(tools.filter((tool) => debianPackage(tool) === undefined)).toEqual([]);
  const needed = new Set(tools.flatMap((tool) => debianPackage(tool) ?? []));
  const installed = /--no-install-recommends ([a-z0-9 -]+?) *\\/.exec(recipe)?.[1]?.split(" ") ?? [];
  // kmod: iptables and the kernel load modules through it.
  expect(installed.filter((name) => name !== "kmod").sort()).toEqual(
    [...needed].filter((name) => name !== "kmod").sort(),
  );
});

test("it copies a file that scripts/build --all makes, to the path of kubeadm's command line", () => {
  expect(recipe).toMatch(/^COPY --chmod=0755 kube-proxy-linux-\$\{ARCH\} \/usr\/local\/bin\/kube-proxy$/m);
  expect(recipe).toMatch(/^ARG ARCH=x64$/m);
  expect(readFileSync(`${root}/scripts/build`, "utf8")).toMatch(/kube-proxy-linux-\$\{target\/aarch64\/arm64\}/);
});
