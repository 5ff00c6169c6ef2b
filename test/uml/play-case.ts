/**
 * Plays one recorded ipvs case through the backend with the real tools and compares after each step. Runs in namespaces
 * of its own: `unshare -n -m bun test/uml/play-case.ts CASE`. Prints one JSON line: {case, differences}.
 */
import { readCase, recorded } from "../conformance/case-file.ts";
import { kindsOf, readState } from "../conformance/kernel-state.ts";
import { contextsOf, Objects, prepareHost } from "./host.ts";
import { IpvsProxy } from "./proxy.ts";

export interface Difference {
  readonly step: number;
  readonly what: string;
  readonly missing: readonly string[];
  readonly extra: readonly string[];
}

const [name = ""] = process.argv.slice(2);
console.log(JSON.stringify({ case: name, differences: await play(name) }));

async function play(name: string): Promise<readonly Difference[]> {
  const test = readCase(name);
  prepareHost(test);
  const contexts = contextsOf(test);
  const proxies = contexts.list.map((context) => new IpvsProxy(context));
  for (const proxy of proxies) await proxy.setup();
  const objects = new Objects(test);
  const differences: Difference[] = [];
  for (const [i, step] of test.steps.entries()) {
    for (const object of step.apply ?? []) objects.apply(object);
    for (const object of step.delete ?? []) objects.remove(object);
    for (const proxy of proxies) {
      const zone = objects.node?.zone ?? "";
      if (proxy.reconciler.context.zone !== zone) proxy.reconciler.context = { ...proxy.reconciler.context, zone };
      await proxy.settle(objects.snapshot());
      // Processes are slow in the guest: the broad cases are enough to show that a synced kernel has no drift.
      const drift = name.startsWith("fuzz-") ? await proxy.reconciler.inspect() : [];
      if (drift.length > 0)
        differences.push({ step: i + 1, what: "drift", missing: [], extra: drift.map((d) => d.what) });
    }
    differences.push(...(await compare(name, i + 1)));
  }
  return differences;
}

async function compare(name: string, step: number): Promise<readonly Difference[]> {
  const expected = new Map(recorded(name, "ipvs", step));
  expected.delete("http");
  // Set by the conntrack part, not by the backend.
  const sysctls = (expected.get("sysctl") ?? "").split("\n").filter((line) => !line.startsWith("net.netfilter."));
  expected.set("sysctl", sysctls.join("\n"));
  for (const what of kindsOf("ipvs")) if (!expected.has(what)) expected.set(what, "");
  const differences: Difference[] = [];
  for (const [what, text] of expected) {
    const actual = await readState(what, "ipvs", text, []);
    if (actual === text) continue;
    const [a, b] = [text.split("\n"), actual.split("\n")];
    differences.push({ step, what, missing: a.filter((l) => !b.includes(l)), extra: b.filter((l) => !a.includes(l)) });
  }
  return differences;
}
