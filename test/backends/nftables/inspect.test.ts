/** The cheap look at a large table: names, hooks and small sets, without listing the table. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { nftables } from "../../../src/backends/nftables/index.ts";
import { testContext } from "../../model/context.ts";
import { kernelMissing, Netns } from "./kernel.ts";
import { absent, endpoint, port, service, statesIn } from "./plans.ts";

setDefaultTimeout(60_000);
const missing = kernelMissing();
if (missing !== undefined) console.warn(`large table inspection skipped: ${missing}`);

const context = testContext("nftables");
const state = statesIn(context)(Array.from({ length: 600 }, (_, i) => service(i, [port(i)])));
const someChain = state.services.get("ns/svc-5")?.chains[0]?.name ?? "";

test("no step lists the whole table or a large map", () => {
  const args = nftables.inspect(state, context).steps.map((step) => (step.kind === "exec" ? step.args.join(" ") : ""));
  expect(args).toContain("list chains ip");
  expect(args).toContain("-s list set ip kube-proxy nodeport-ips");
  expect(args.join("\n")).not.toMatch(/list table|service-ips|cluster-ips/);
});

test("of a compact table neither", () => {
  const compact = testContext("nftables", "IPv4", { gates: { nftablesCompact: true } });
  const ten = (i: number) => Array.from({ length: 10 }, (_, e) => endpoint(`10.244.${i & 255}.${e}`));
  const large = statesIn(compact)(
    Array.from({ length: 600 }, (_, i) => service(i, [port(i, { endpoints: ten(i), clusterEndpoints: ten(i) })])),
  );
  const args = nftables.inspect(large, compact).steps.map((step) => (step.kind === "exec" ? step.args.join(" ") : ""));
  expect(args).toContain("list chains ip");
  expect(args.join("\n")).not.toMatch(/list table|service-ips|cluster-ips|tcp-endpoints/);
});

describe.skipIf(missing !== undefined)("a large table", () => {
  let netns: Netns;
  beforeAll(() => {
    netns = new Netns();
    netns.run(nftables.diff(absent, state, context, 0).steps);
  });
  afterAll(() => netns?.close());

  function look(): readonly string[] {
    const reading = nftables.inspect(state, context);
    return reading.parse(netns.run(reading.steps)).map((drift) => drift.what);
  }

  test.each([
    ["add element ip kube-proxy nodeport-ips { 172.16.0.1 }", "element 172.16.0.1 of nodeport-ips is not ours"],
    ["delete element ip kube-proxy nodeport-ips { 192.168.0.2 }", "element 192.168.0.2 of nodeport-ips is missing"],
    ["flush chain ip kube-proxy nat-output\ndelete chain ip kube-proxy nat-output", "chain nat-output is missing"],
    [
      `delete element ip kube-proxy service-ips { 10.96.0.5 . tcp . 80 }\nflush chain ip kube-proxy ${someChain}\ndelete chain ip kube-proxy ${someChain}`,
      `chain ${someChain} is missing`,
    ],
    ["delete table ip kube-proxy", "table ip kube-proxy is missing"],
  ])("%s", (damage, what) => {
    expect(look()).toEqual([]);
    expect(netns.exec(["nft", "-f", "-"], damage).stderr).toBe("");
    expect(look()).toEqual([what]);
    const reading = nftables.observe(context);
    const observed = reading.parse(netns.run(reading.steps));
    netns.run(nftables.diff({ kind: "observed", observed }, state, context, 0).steps);
    expect(look()).toEqual([]);
  });

  test("an nft that fails tells nothing", () => {
    const reading = nftables.inspect(state, context);
    const crashed = reading.steps.map(() => ({ exitCode: 139, stdout: "", stderr: "Segmentation fault" }));
    expect(reading.parse(crashed)).toEqual([]);
  });
});
