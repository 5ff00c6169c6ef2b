/** The laws of a backend, with random Services in real kernels: what is written incrementally is what is written at once. */
import { afterAll, describe, expect, test } from "bun:test";
import { type IptablesState, iptables } from "../../../src/backends/iptables/index.ts";
import type { Context } from "../../../src/model/context.ts";
import type { ServiceInput } from "../../../src/model/snapshot.ts";
import { canonical } from "./canonical.ts";
import { Namespace, readIn } from "./namespace.ts";
import { context, legacy, manyServices, planOf, service } from "./plans.ts";

const open: Namespace[] = [];
afterAll(() => {
  for (const ns of open) ns.close();
});

async function namespace(given: Context): Promise<Namespace> {
  const ns = await Namespace.open(given.facts.iptables === "legacy" ? "legacy" : "nft");
  open.push(ns);
  return ns;
}

const seed = Number(process.env["SEED"] ?? 20261130);

function random(start: number): (below: number) => number {
  let state = start >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function randomService(index: number, pick: (below: number) => number): ServiceInput {
  const kind = pick(4);
  const endpoints = Array.from({ length: pick(6) }, () => 1 + pick(60));
  const ports = Array.from({ length: 1 + pick(2) }, (_, i) => ({
    name: "http",
    protocol: (["tcp", "udp", "sctp"] as const)[(pick(3) + i) % 3] ?? "tcp",
    port: 80 + i,
    nodePort: kind >= 2 ? 30000 + index * 2 + i : 0,
  }));
  return service(index, [...new Set(endpoints)], {
    ports: ports.slice(0, 1 + pick(1)),
    externalIPs: kind === 1 ? [`198.51.100.${index}`] : [],
    loadBalancerIPs: kind === 3 ? [`203.0.113.${index}`, `203.0.114.${index}`] : [],
    sourceRanges: kind === 3 && pick(2) === 1 ? ["192.168.0.0/16", "1.2.3.0/24"] : [],
    affinitySeconds: pick(3) === 0 ? 60 : 0,
    internalLocal: pick(4) === 0,
    externalLocal: kind >= 2 && pick(2) === 0,
    healthCheckNodePort: kind === 3 && pick(2) === 0 ? 32000 + index : 0,
  });
}

function apply(ns: Namespace, from: IptablesState | undefined, to: IptablesState, given: Context): void {
  const reading = iptables.observe(given);
  const start =
    from === undefined
      ? ({ kind: "observed", observed: readIn(ns, reading) } as const)
      : ({ kind: "state", state: from } as const);
  ns.run(iptables.diff(start, to, given, 0).steps);
}

describe.each([
  ["nft", context],
  ["legacy", legacy],
] as const)("iptables-%s", (_, given) => {
  test(`twelve random rounds, seed ${seed}`, async () => {
    const pick = random(seed);
    const ns = await namespace(given);
    let inputs: ServiceInput[] = [];
    let state: IptablesState | undefined;
    let plan = planOf([], given);
    for (let round = 0; round < 12; round++) {
      inputs = Array.from({ length: 12 }, (_, i) => i)
        .filter(() => pick(5) > 0)
        .map(
          (i) =>
            (pick(2) === 0 ? inputs.find((x) => x.service.name === `svc-${i}`) : undefined) ?? randomService(i, pick),
        );
      plan = planOf(inputs, given, plan);
      const to = iptables.desired(plan, given, state);
      // Every third round starts from what the kernel is read to hold, as after a failure or a restart.
      apply(ns, round % 3 === 0 ? undefined : state, to, given);
      const fresh = await namespace(given);
      apply(fresh, undefined, to, given);
      expect(canonical(ns.save("iptables")), `round ${round}`).toBe(canonical(fresh.save("iptables")));
      fresh.close();
      expect(iptables.diff({ kind: "state", state: to }, to, given, 0).steps).toEqual([]);
      expect(iptables.diff({ kind: "state", state: to }, iptables.desired(plan, given, to), given, 0).steps).toEqual(
        [],
      );
      state = to;
    }
  }, 60_000);

  test("equal inputs give identical text", () => {
    const inputs = Array.from({ length: 20 }, (_, i) => randomService(i, random(seed + i)));
    const text = (): string =>
      JSON.stringify(
        iptables.diff(
          { kind: "observed", observed: nothing },
          iptables.desired(planOf(inputs, given), given, undefined),
          given,
          0,
        ).steps,
      );
    expect(text()).toBe(text());
  });

  test("several sections in one restore, then deletions in several", async () => {
    const ns = await namespace(given);
    const inputs = manyServices(90, 10);
    const full = iptables.desired(planOf(inputs, given), given, undefined);
    apply(ns, undefined, full, given);
    const small = iptables.desired(planOf(inputs.slice(0, 3), given), given, full);
    apply(ns, full, small, given);
    const fresh = await namespace(given);
    apply(fresh, undefined, small, given);
    expect(canonical(ns.save("iptables"))).toBe(canonical(fresh.save("iptables")));
    const { steps } = iptables.diff({ kind: "observed", observed: nothing }, full, given, 0);
    const step = steps[0];
    const commits = step?.kind === "exec" ? (step.input ?? []).filter((piece) => piece === "COMMIT\n").length : 0;
    expect(steps.filter((s) => s.kind === "exec").length).toBe(1);
    // mangle, nat, filter; with nft the nat table in parts.
    expect(commits).toBe(given.facts.iptables === "legacy" ? 3 : 6);
  });

  test("foreign rules stay, stale chains of an earlier life go, doubled and odd jumps are put right", async () => {
    const ns = await namespace(given);
    const before = [
      "*nat\n:MINE - [0:0]\n:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-BBBBBBBBBBBBBBBB - [0:0]\n:KUBE-SERVICES - [0:0]\n",
      "-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA\n-A KUBE-SERVICES -d 9.9.9.9/32 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n",
      "-A MINE -j KUBE-SEP-BBBBBBBBBBBBBBBB\n-A PREROUTING -s 7.7.7.7/32 -j MINE\n",
      "-A PREROUTING -j KUBE-SERVICES\n-A PREROUTING -j KUBE-SERVICES\n-A PREROUTING -s 8.8.8.8/32 -j ACCEPT\nCOMMIT\n",
      "*filter\n:KUBE-FIREWALL - [0:0]\n-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP\n-A INPUT -s 6.6.6.6/32 -j DROP\nCOMMIT\n",
    ];
    expect(ns.exec("iptables-restore", ["--noflush"], before).stderr).toBe("");
    const to = iptables.desired(planOf(manyServices(2, 2), given), given, undefined);
    apply(ns, undefined, to, given);
    const save = ns.save("iptables");
    expect(save).not.toContain("KUBE-SVC-AAAA");
    expect(save).not.toContain("KUBE-SEP-AAAA");
    for (const line of [
      "-A MINE -j KUBE-SEP-BBBBBBBBBBBBBBBB",
      "-A PREROUTING -s 7.7.7.7/32 -j MINE",
      "-A PREROUTING -s 8.8.8.8/32 -j ACCEPT",
      "-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP",
      "-A INPUT -s 6.6.6.6/32 -j DROP",
    ]) {
      expect(save).toContain(`${line}\n`);
    }
    const jumps = save.split("\n").filter((l) => l.startsWith("-A PREROUTING") && l.endsWith("-j KUBE-SERVICES"));
    expect(jumps).toEqual(['-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES']);
    expect(
      iptables
        .inspect(to, given)
        .parse(ns.run(iptables.inspect(to, given).steps))
        .map((d) => d.what),
    ).toEqual(["nat KUBE-SEP-BBBBBBBBBBBBBBBB: not ours any more"]);
  });
});

const nothing = {
  mangle: { chains: new Map<string, string>() },
  filter: { chains: new Map<string, string>() },
  nat: { chains: new Map<string, string>() },
};

test("only what belongs to a changed Service is written", () => {
  const inputs = manyServices(50, 3);
  const plan = planOf(inputs);
  const from = iptables.desired(plan, context, undefined);
  const changed = inputs.with(7, service(7, [22, 23, 9999]));
  const next = planOf(changed, context, plan);
  const to = iptables.desired(next, context, from);
  const reused = [...to.services].filter(([key, rendered]) => from.services.get(key) === rendered);
  expect(reused.length).toBe(49);
  const step = iptables.diff({ kind: "state", state: from }, to, context, 0).steps[0];
  const text = step?.kind === "exec" ? (step.input ?? []).join("") : "";
  expect(text.match(/^\*/gm)?.length).toBe(1);
  expect(text.match(/^:KUBE-\w+/gm)?.sort()).toEqual([":KUBE-SEP", ":KUBE-SEP", ":KUBE-SVC"]);
  expect(text).not.toContain("KUBE-SERVICES");
});

test("a new Service is one insertion into KUBE-SERVICES, a removed one one deletion", () => {
  const inputs = manyServices(50, 1);
  const few = iptables.desired(planOf(inputs.slice(0, 49)), context, undefined);
  const all = iptables.desired(planOf(inputs), context, undefined);
  const text = (a: IptablesState, b: IptablesState): string => {
    const step = iptables.diff({ kind: "state", state: a }, b, context, 0).steps[0];
    return step?.kind === "exec" ? (step.input ?? []).join("") : "";
  };
  expect(text(few, all).match(/^-I KUBE-SERVICES /gm)?.length).toBe(1);
  expect(text(few, all)).not.toContain("-A KUBE-SERVICES");
  expect(text(all, few).match(/^-D KUBE-SERVICES /gm)?.length).toBe(1);
  expect(text(all, few)).not.toContain("-A KUBE-SERVICES");
});
