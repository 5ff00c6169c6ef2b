/**
 * Packets that meet a commit: a flood of new connections while endpoints, policies and the layout change hundreds of times a
 * second. Not one may leave untranslated.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { nftables } from "../../../src/backends/nftables/index.ts";
import type { Context } from "../../../src/model/context.ts";
import type { PortPlan, ServicePlan } from "../../../src/model/plan.ts";
import type { Step } from "../../../src/model/step.ts";
import { testContext } from "../../model/context.ts";
import { kernelMissing, Netns } from "./kernel.ts";
import { absent, endpoint, port, service, statesIn } from "./plans.ts";

setDefaultTimeout(60_000);

const missing = kernelMissing();
if (missing !== undefined) console.warn(`nftables generations skipped: ${missing}`);

const seconds = 3;
const layout = (compact: boolean): Context =>
  testContext("nftables", "IPv4", { gates: { nftablesCompact: compact }, masqueradeAll: false });
const compact = layout(true);

/** The Service under fire, and two that keep the chains for 2 and 5 endpoints when `kept`. */
function services(count: number, kept: boolean, changes: Partial<PortPlan> = {}): readonly ServicePlan[] {
  const one = (index: number, n: number, more: Partial<PortPlan> = {}): ServicePlan => {
    const endpoints = Array.from({ length: n }, (_, i) => endpoint(`10.244.${index}.${i + 1}`));
    return service(index, [port(index, { protocol: "udp", endpoints, clusterEndpoints: endpoints, ...more })]);
  };
  return kept ? [one(1, count, changes), one(2, 2), one(3, 5)] : [one(1, count, changes)];
}

interface Side {
  readonly context: Context;
  readonly services: readonly ServicePlan[];
}

const side = (count: number, kept: boolean, changes?: Partial<PortPlan>, context = compact): Side => ({
  context,
  services: services(count, kept, changes),
});
const local = (count: number): Side => {
  const endpoints = Array.from({ length: count }, (_, i) => endpoint(`10.244.1.${i + 1}`));
  return side(3, false, { internal: "local", internalLocal: true, usesLocal: true, localEndpoints: endpoints });
};

const cases: readonly (readonly [string, Side, Side])[] = [
  ["2 and 5 endpoints, chains in place", side(2, true), side(5, true)],
  ["2 and 5 endpoints, chains that come and go", side(2, false), side(5, false)],
  ["affinity on and off", side(3, false), side(3, false, { affinitySeconds: 60 })],
  ["a Local policy on and off", side(3, false), local(1)],
  ["both layouts", side(3, false), side(3, false, {}, layout(false))],
];

describe.skipIf(missing !== undefined)("while connections pour in", () => {
  test.each(cases)("%s", async (_, a, b) => {
    const netns = new Netns();
    try {
      watch(netns);
      netns.run(nftables.diff(absent, statesIn(a.context)(a.services), a.context, 0).steps);
      const { lines, changes } = script(a, b, 400);
      const pump = netns.spawn([process.execPath, `${import.meta.dir}/pump.ts`, "10.96.0.1", "80", String(seconds)]);
      const flips = netns.spawn(["timeout", String(seconds), "nft", "-i"], lines.join("\n"));
      expect(await pump.exited).toBe(0);
      await flips.exited;
      expect(await new Response(flips.stderr).text()).toBe("");
      const counts = counters(netns);
      console.log(`${counts["sent"]} packets, up to ${changes} changes`);
      expect(counts["sent"]).toBeGreaterThan(1_000);
      expect(counts["untranslated"]).toBe(0);
    } finally {
      netns.close();
    }
  });
});

/** Counts after DNAT and drops: no packet is ever confirmed, so each is a new connection. */
function watch(netns: Netns): void {
  netns.exec(["ip", "route", "add", "local", "10.0.0.0/8", "dev", "lo"]);
  const text = [
    "table ip watch {",
    "chain out { type filter hook output priority -50;",
    "ip daddr 10.96.0.1 counter drop",
    "udp dport 8080 counter drop",
    "}",
    "}\n",
  ];
  expect(netns.exec(["nft", "-f", "-"], text.join("\n")).stderr).toBe("");
}

function counters(netns: Netns): Readonly<Record<string, number>> {
  const text = netns.exec(["nft", "list", "table", "ip", "watch"]).stdout;
  const [untranslated, sent] = [...text.matchAll(/counter packets (\d+)/g)].map((match) => Number(match[1]));
  return { untranslated: untranslated ?? Number.NaN, sent: sent ?? 0 };
}

/** Changes from `a` to `b` and back as lines for `nft -i`, one transaction each. */
function script(a: Side, b: Side, rounds: number): { readonly lines: readonly string[]; readonly changes: number } {
  const states = [a, b].map(({ context, services: list }) => statesIn(context)(list));
  let from = states[0];
  const lines: string[] = [];
  for (let i = 1; i <= rounds * 2; i++) {
    const [to, { context }] = [states[i % 2], i % 2 === 0 ? a : b];
    if (from === undefined || to === undefined) throw new Error("no states");
    const change = nftables.diff({ kind: "state", state: from }, to, context, i * 100);
    lines.push(...change.steps.map(oneLine));
    from = change.state;
  }
  return { lines, changes: rounds * 2 };
}

/** The interactive nft takes a line as a transaction, with semicolons between what otherwise stands on lines. */
function oneLine(step: Step): string {
  if (step.kind !== "exec") throw new Error("no nft step");
  let elements = false;
  const words = (step.input?.join("") ?? "").split("\n").map((raw) => {
    const line = raw.trim();
    if (line.endsWith(" {")) elements = / element /.test(line);
    else if (line === "}") elements = false;
    else if (elements) return line;
    else return `${line};`;
    return line === "}" ? "};" : line;
  });
  return words.filter((word) => word !== ";").join(" ");
}
