/** Broken and hostile objects through the real tools: each transaction is taken, and nothing but ours is there afterwards. */
import { describe, expect, test } from "bun:test";
import type { Backend } from "../../src/backends/backend.ts";
import { iptables } from "../../src/backends/iptables/index.ts";
import { nftables } from "../../src/backends/nftables/index.ts";
import { runSteps } from "../../src/host/run.ts";
import { ObjectStore } from "../../src/kube/object-store.ts";
import { parseEndpointSlice } from "../../src/model/endpoint-slice-parse.ts";
import type { Plan } from "../../src/model/plan.ts";
import { makePlan } from "../../src/model/planner.ts";
import { parseService } from "../../src/model/service-parse.ts";
import { fuzzService } from "../fuzz/objects.ts";
import { testContext } from "../model/context.ts";
import { Random, type RawService } from "../model/random.ts";
import { fit, resetHost, sh } from "../process/harness.ts";

const seed = Number(process.env["KP_FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const rounds = 15;

describe.skipIf(!fit).each([
  ["nftables", nftables as Backend<unknown, unknown>],
  ["iptables", iptables as Backend<unknown, unknown>],
] as const)("%s", (mode, backend) => {
  test(`${rounds} rounds of 60 Services, KP_FUZZ_SEED=${seed}`, async () => {
    resetHost();
    const random = new Random(seed);
    const store = new ObjectStore("node-1");
    const held = new Map<string, { plan: Plan; state: unknown }>();
    for (let round = 0; round < rounds; round++) {
      for (let i = 0; i < 60; i++) take(store, fuzzService(random, random.below(200), random.pick([1, 1, 4, 20])));
      for (const family of ["IPv4", "IPv6"] as const) {
        const context = testContext(mode, family, {
          facts: { iptables: "nft", randomFully: true, nfacct: false, tcpBeLiberal: false, kernel: [6, 1] },
        });
        const before = held.get(family);
        const plan = makePlan(store.snapshot(), context, before?.plan);
        const state = backend.desired(plan, context, before?.state);
        const observe = backend.observe(context);
        const from =
          before === undefined
            ? ({ kind: "observed", observed: observe.parse(await runSteps(observe.steps)) } as const)
            : ({ kind: "state", state: before.state } as const);
        const change = backend.diff(from, state, context, round * 5000);
        // Throws with the tool's message when it refuses one line.
        await runSteps(change.steps);
        held.set(family, { plan, state: change.state });
      }
    }
    expect(store.snapshot().services.size).toBeGreaterThan(100);
    if (mode === "nftables") {
      expect(sh("nft list tables").trim().split("\n").sort()).toEqual(["table ip kube-proxy", "table ip6 kube-proxy"]);
      return;
    }
    for (const tool of ["iptables-save", "ip6tables-save"]) {
      const lines = sh(tool)
        .split("\n")
        .filter((l) => l !== "" && !/^(#|COMMIT|\*(nat|filter|mangle)$)/.test(l));
      const foreign = lines.filter((l) => !/^:(KUBE-[A-Z0-9-]+|[A-Z]+) |^-A KUBE-|^-A [A-Z]+ .*-j KUBE-/.test(l));
      expect(foreign).toEqual([]);
      expect(lines.length).toBeGreaterThan(100);
    }
  });
});

function take(store: ObjectStore, raw: RawService): void {
  const service = parseService(raw.service).value;
  if (service !== undefined) store.services.set(service.key, service);
  for (const one of raw.slices) {
    const made = parseEndpointSlice(one).value;
    if (made !== undefined) store.endpointSlices.set(`${made.serviceKey}/${made.name}`, made);
  }
}
