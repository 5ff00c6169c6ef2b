/** Damage done by others is seen by the cheap look and repaired from an observation; what packets remembered survives. */
import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type NftState, nftables } from "../../../src/backends/nftables/index.ts";
import { makePlan } from "../../../src/model/planner.ts";
import { testContext } from "../../model/context.ts";
import { type RawService, snapshotOf } from "../../model/random.ts";
import { kernelMissing, Netns } from "./kernel.ts";

setDefaultTimeout(60_000);

const missing = kernelMissing();
if (missing !== undefined) console.warn(`nftables drift tests skipped: ${missing}`);

const cluster: readonly RawService[] = [
  {
    service: {
      metadata: { namespace: "ns1", name: "aff", uid: "1" },
      spec: {
        type: "NodePort",
        clusterIP: "10.96.0.1",
        clusterIPs: ["10.96.0.1"],
        sessionAffinity: "ClientIP",
        ports: [{ name: "p", protocol: "TCP", port: 80, nodePort: 30080 }],
      },
    },
    slices: [slice("aff", ["10.244.1.5", "10.244.2.5"])],
  },
  {
    service: {
      metadata: { namespace: "ns1", name: "web", uid: "2" },
      spec: {
        type: "ClusterIP",
        clusterIP: "10.96.0.2",
        clusterIPs: ["10.96.0.2"],
        ports: [{ name: "p", protocol: "TCP", port: 80 }],
      },
    },
    slices: [slice("web", ["10.244.1.5", "10.244.2.6"])],
  },
];

function slice(service: string, ips: readonly string[]): Record<string, unknown> {
  return {
    metadata: { namespace: "ns1", name: `${service}-a`, labels: { "kubernetes.io/service-name": service } },
    addressType: "IPv4",
    ports: [{ name: "p", protocol: "TCP", port: 8080 }],
    endpoints: ips.map((ip) => ({
      addresses: [ip],
      nodeName: `node-${ip.split(".")[2]}`,
      conditions: { ready: true },
    })),
  };
}

const damages: readonly (readonly [string, string])[] = [
  ["table", "delete table ip kube-proxy"],
  ["rule", "flush chain ip kube-proxy services"],
  ["rule", "add rule ip kube-proxy nat-output ip daddr 10.96.0.2 accept"],
  ["element", "delete element ip kube-proxy service-ips { 10.96.0.2 . tcp . 80 }"],
  ["element", "add element ip kube-proxy service-ips { 10.96.9.9 . tcp . 80 : drop }"],
  ["element", "add element ip kube-proxy nodeport-ips { 172.16.0.9 }"],
  ["element", "flush set ip kube-proxy cluster-ips"],
  [
    "element",
    "delete element ip kube-proxy service-ips { 10.96.0.2 . tcp . 80 }\nadd element ip kube-proxy service-ips { 10.96.0.2 . tcp . 80 : drop }",
  ],
  ["chain", "flush chain ip kube-proxy nat-output\ndelete chain ip kube-proxy nat-output"],
  [
    "chain",
    "flush chain ip kube-proxy nat-output\ndelete chain ip kube-proxy nat-output\nadd chain ip kube-proxy nat-output { type nat hook output priority -90 ; }",
  ],
  ["chain", "add chain ip kube-proxy evil { type filter hook input priority 5 ; policy drop ; }"],
  ["set", "flush chain ip kube-proxy firewall-check\ndelete map ip kube-proxy firewall-ips"],
];

/** Things that only an observation finds: the cheap look does not compare texts. */
const hidden: readonly string[] = [
  "flush chain ip kube-proxy cluster-ips-check\nadd rule ip kube-proxy cluster-ips-check ip daddr @cluster-ips drop",
  "add chain ip kube-proxy left-over\nadd rule ip kube-proxy left-over drop",
  "add set ip kube-proxy left-set { type ipv4_addr ; elements = { 1.2.3.4 } ; }",
  "flush chain ip kube-proxy nodeport-endpoints-check\ndelete map ip kube-proxy no-endpoint-nodeports\nadd map ip kube-proxy no-endpoint-nodeports { type ipv4_addr : verdict ; }",
];

/** Damage that only the compact layout can have. */
const compactDamages: typeof damages = [
  ["element", "delete element ip kube-proxy tcp-endpoints { 10.96.0.2 . 80 . 0 }"],
  ["element", "add element ip kube-proxy udp-endpoints { 10.96.0.2 . 80 . 0 : 10.244.9.9 . 8080 }"],
  [
    "element",
    "delete element ip kube-proxy tcp-endpoints { 10.96.0.2 . 80 . 1 }\nadd element ip kube-proxy tcp-endpoints { 10.96.0.2 . 80 . 1 : 10.244.9.9 . 8080 }",
  ],
  ["rule", "flush chain ip kube-proxy lb-tcp-2"],
  ["set", "flush chain ip kube-proxy lb-tcp-2\ndelete map ip kube-proxy tcp-endpoints"],
];

const layouts = [
  ["standard", false],
  ["compact", true],
] as const;

describe.skipIf(missing !== undefined).each(layouts)("drift in the %s layout", (_, compact) => {
  const context = testContext("nftables", "IPv4", { gates: { nftablesCompact: compact } });
  let netns: Netns;
  let state: NftState;
  let right: string;

  beforeEach(() => {
    netns = new Netns();
    const to = nftables.desired(makePlan(snapshotOf(cluster), context), context, undefined);
    const change = nftables.diff({ kind: "observed", observed: { kind: "absent" } }, to, context, 0);
    netns.run(change.steps);
    state = change.state;
    right = netns.table("ip");
  });
  afterEach(() => netns.close());

  function look() {
    const reading = nftables.inspect(state, context);
    return reading.parse(netns.run(reading.steps));
  }

  function repair(): Readonly<Record<string, number>> {
    const reading = nftables.observe(context);
    const observed = reading.parse(netns.run(reading.steps));
    const change = nftables.diff({ kind: "observed", observed }, state, context, 10_000);
    netns.run(change.steps);
    netns.run(nftables.diff({ kind: "state", state: change.state }, state, context, 90_000).steps);
    return change.counts;
  }

  function damage(text: string): void {
    const { exitCode, stderr } = netns.exec(["nft", "-f", "-"], text);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(netns.table("ip")).not.toBe(right);
  }

  test("a table that is right has no drift and needs no repair", () => {
    expect(look()).toEqual([]);
    expect(repair()).toEqual({ chains: 0, elements: 0, condemned: 0 });
  });

  test.each(compact ? [...damages, ...compactDamages] : damages)("%s: %s", (kind, text) => {
    damage(text);
    expect(look().map((drift) => drift.kind)).toContain(kind);
    repair();
    expect(netns.table("ip")).toBe(right);
    expect(look()).toEqual([]);
  });

  test.each(hidden)("%s", (text) => {
    damage(text);
    repair();
    expect(netns.table("ip")).toBe(right);
  });

  test("what packets remembered survives a repair, and a base chain made anew", () => {
    const set = [...state.services.values()].flatMap((objects) => objects.sets)[0];
    netns.exec(["nft", "add", "element", "ip", "kube-proxy", set?.name ?? "", "{ 10.244.1.9 }"]);
    damage(
      "flush chain ip kube-proxy nat-output\ndelete chain ip kube-proxy nat-output\nadd chain ip kube-proxy nat-output { type nat hook output priority -90 ; }",
    );
    repair();
    expect(netns.table("ip")).toBe(right);
    expect(netns.list("ip")).toContain("10.244.1.9 ");
  });

  test("a chain of another type is replaced with its table", () => {
    damage(
      "delete table ip kube-proxy\nadd table ip kube-proxy\nadd chain ip kube-proxy nat-output\nadd chain ip kube-proxy x\nadd rule ip kube-proxy x jump nat-output",
    );
    repair();
    expect(netns.table("ip")).toBe(right);
  });

  test("an nft that fails on our table is answered by a new table", () => {
    damage("flush chain ip kube-proxy services");
    const observed = nftables.observe(context).parse([{ exitCode: 139, stdout: "", stderr: "Segmentation fault" }]);
    expect(observed.kind).toBe("unreadable");
    netns.run(nftables.diff({ kind: "observed", observed }, state, context, 0).steps);
    expect(netns.table("ip")).toBe(right);
  });

  test("other programs' tables are neither read nor touched", () => {
    netns.exec(["nft", "-f", "-"], "add table inet firewalld\nadd chain inet firewalld kube-proxy");
    damage("delete table ip kube-proxy");
    repair();
    netns.run(nftables.cleanup(context));
    expect(netns.exec(["nft", "list", "tables"]).stdout).toBe("table inet firewalld\n");
    for (const { steps } of [nftables.observe(context), nftables.inspect(state, context)])
      for (const step of steps) expect(step.kind === "exec" && step.args.includes("kube-proxy")).toBe(true);
  });

  // A line of a shared map names no Service: the app finds the culprit by halves.
  if (compact) return;
  test("the lines that the kernel refuses name their Services", () => {
    const bad = { ...state, services: new Map(state.services) };
    const web = state.services.get("ns1/web");
    if (web === undefined) throw new Error("no ns1/web");
    // An element that goes to a chain which is not there.
    bad.services.set("ns1/web", { ...web, chains: [] });
    const { steps } = nftables.diff({ kind: "observed", observed: { kind: "absent" } }, bad, context, 0);
    netns.run(nftables.cleanup(context));
    const [step] = steps;
    if (step?.kind !== "exec") throw new Error("no transaction");
    const { exitCode, stderr } = netns.exec(["nft", "-f", "-"], step.input?.join(""));
    expect(exitCode).toBe(1);
    expect(nftables.blame(step, stderr)).toEqual(["ns1/web"]);
    expect(netns.table("ip")).toBe("");
  });
});
