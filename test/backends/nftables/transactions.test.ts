/** What the transactions hold, without a kernel: sizes, order, clean-up in time, names that nobody should send. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { nftables } from "../../../src/backends/nftables/index.ts";
import { ownerOf } from "../../../src/backends/nftables/names.ts";
import type { Step } from "../../../src/model/step.ts";
import { type ListedTable, parseTable } from "../../../src/tools/nft-list.ts";
import { testContext } from "../../model/context.ts";
import { kernelMissing, Netns } from "./kernel.ts";
import { absent, endpoint, port, service, statesIn } from "./plans.ts";

setDefaultTimeout(60_000);

const context = testContext("nftables");
const stateOf = statesIn(context);

function inputOf(step: Step | undefined): string {
  return step?.kind === "exec" ? (step.input?.join("") ?? "") : "";
}

function referencesOf({ chains }: ListedTable): readonly string[] {
  const rules = [...chains.values()].flatMap((chain) => chain.rules);
  return rules.flatMap((rule) => [...rule.matchAll(/(?:goto |jump |@)([^\s,}]+)/g)].map((match) => match[1] ?? ""));
}

describe("very many new chains", () => {
  const ten = Array.from({ length: 10 }, (_, i) => endpoint(`10.244.0.${i}`));
  const services = Array.from({ length: 800 }, (_, i) =>
    service(i, [port(i, { endpoints: ten, clusterEndpoints: ten, affinitySeconds: 60 })]),
  );
  const { steps, counts } = nftables.diff(absent, stateOf(services), context, 0);

  test("go ahead in bounded transactions, each complete in itself", () => {
    expect(steps.length).toBe(4);
    const known = new Set<string>();
    const wrong: string[] = [];
    let chains = 0;
    for (const step of steps) {
      const table = parseTable(inputOf(step), "ip kube-proxy");
      for (const name of [...table.chains.keys(), ...table.sets.keys()]) {
        if (known.has(name)) wrong.push(`${name} twice`);
        known.add(name);
      }
      chains += table.chains.size;
      expect(table.chains.size).toBeLessThan(4_100);
      wrong.push(...referencesOf(table).filter((name) => !known.has(name)));
    }
    expect(wrong).toEqual([]);
    expect(counts["chains"]).toBe(chains);
  });

  test("the last one alone sends traffic there", () => {
    for (const step of steps.slice(0, -1)) expect(inputOf(step)).not.toContain("hook ");
    for (const step of steps.slice(0, -1)) expect(inputOf(step)).not.toContain("element");
    expect(inputOf(steps.at(-1))).toContain("hook prerouting");
  });
});

describe("clean-up", () => {
  const one = service(1, [port(1)]);
  const two = service(2, [port(2)]);
  const both = stateOf([one, two]);

  test("a chain is emptied with the change and deleted by a later step of its own", () => {
    const to = stateOf([one], both);
    const first = nftables.diff({ kind: "state", state: both }, to, context, 5_000);
    expect(first.steps).toHaveLength(1);
    expect(inputOf(first.steps[0])).toMatch(/flush chain ip kube-proxy service-\w+-ns\/svc-2\/tcp\/p\n/);
    expect(inputOf(first.steps[0])).not.toContain("delete chain");
    expect(first.againMs).toBe(30_000);
    expect(nftables.diff({ kind: "state", state: first.state }, to, context, 6_000).steps).toEqual([]);
    // With the next change, once it is a second old.
    const withNext = nftables.diff({ kind: "state", state: first.state }, stateOf([], to), context, 6_500);
    expect(withNext.steps).toHaveLength(2);
    expect(withNext.steps[1]).toMatchObject({ mayFail: true });
    expect(inputOf(withNext.steps[1])).toContain("delete chain");
    // Or by itself.
    const alone = nftables.diff({ kind: "state", state: first.state }, to, context, 35_000);
    expect(alone.steps).toHaveLength(1);
    expect(alone.steps[0]).toMatchObject({ mayFail: true });
    expect(alone.againMs).toBeUndefined();
  });

  test("a chain that is wanted again is not deleted", () => {
    const to = stateOf([one], both);
    const first = nftables.diff({ kind: "state", state: both }, to, context, 0);
    const back = nftables.diff({ kind: "state", state: first.state }, both, context, 60_000);
    expect(back.steps).toHaveLength(1);
    expect(back.state.condemned.size).toBe(0);
  });
});

describe("shared elements", () => {
  test("stay while another Service wants them", () => {
    const pod = [endpoint("10.244.1.5", true)];
    const a = service(1, [port(1, { endpoints: pod, clusterEndpoints: pod })]);
    const b = service(2, [port(2, { endpoints: pod, clusterEndpoints: pod })]);
    const both = stateOf([a, b]);
    const key = "10.244.1.5 . 10.244.1.5 . tcp . 8080";
    const one = nftables.diff({ kind: "state", state: both }, stateOf([b], both), context, 0);
    expect(inputOf(one.steps[0])).not.toContain(key);
    const none = nftables.diff({ kind: "state", state: one.state }, stateOf([], both), context, 0);
    expect(inputOf(none.steps[0])).toContain(`delete element ip kube-proxy hairpin-connections {\n${key}\n}`);
  });
});

describe("hostile text", () => {
  const bad = 'x" ; flush ruleset ; add table ip evil # { } \n add table ip evil2\n';
  const hostile = service(
    7,
    [
      port(7, { name: bad, portName: bad, internal: "reject", endpoints: [], clusterEndpoints: [] }),
      port(8, { name: bad, portName: bad, nodePort: 30_000, exposed: true }),
      // The same names and addresses twice in one Service.
      port(8, { name: bad, portName: bad, nodePort: 30_000, exposed: true }),
    ],
    { namespace: bad, name: bad.repeat(5) },
  );

  const missing = kernelMissing();
  if (missing !== undefined) console.warn(`hostile names against the kernel skipped: ${missing}`);
  test.skipIf(missing !== undefined)("never gets out of names and comments", () => {
    const netns = new Netns();
    try {
      netns.exec(["nft", "add", "table", "ip", "other"]);
      netns.run(nftables.diff(absent, stateOf([hostile]), context, 0).steps);
      expect(netns.exec(["nft", "list", "tables"]).stdout).toBe("table ip other\ntable ip kube-proxy\n");
      const reading = nftables.observe(context);
      const observed = reading.parse(netns.run(reading.steps));
      expect(nftables.diff({ kind: "observed", observed }, stateOf([hostile]), context, 0).steps).toEqual([]);
    } finally {
      netns.close();
    }
  });

  test("names are bounded", () => {
    for (const chain of stateOf([hostile]).services.get("ns/svc-7")?.chains ?? [])
      expect(chain.name.length).toBeLessThanOrEqual(255);
  });
});

test("chains tell their Service", () => {
  expect(ownerOf("service-ULMVA6XW-ns1/svc1/tcp/p80")).toBe("ns1/svc1");
  expect(ownerOf("affinity-SKNHRS2A-ns1/aff/tcp/__10.244.1.5/8080")).toBe("ns1/aff");
  expect(ownerOf("service-ips")).toBeUndefined();
  expect(ownerOf("service-endpoints-check")).toBeUndefined();
});
