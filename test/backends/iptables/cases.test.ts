/** Every recorded case, every step, both families: our rules in a real kernel against what kube-proxy left there. */
import { afterAll, describe, expect, test } from "bun:test";
import { type IptablesState, iptables } from "../../../src/backends/iptables/index.ts";
import type { FamilyName } from "../../../src/model/family.ts";
import type { Plan } from "../../../src/model/plan.ts";
import { makePlan } from "../../../src/model/planner.ts";
import { canonical } from "./canonical.ts";
import { Namespace, readIn } from "./namespace.ts";
import { caseNames, readCase } from "./recorded-case.ts";

const variants = ["nft", "legacy"] as const;
const familyNames: readonly FamilyName[] = ["IPv4", "IPv6"];
const open: Namespace[] = [];
afterAll(() => {
  for (const ns of open) ns.close();
});

describe.each(variants)("recorded cases with iptables-%s", (variant) => {
  test.each(caseNames())("%s", async (name) => {
    const recorded = readCase(name);
    const ns = await Namespace.open(variant);
    open.push(ns);
    for (const family of familyNames) {
      let plan: Plan | undefined;
      let state: IptablesState | undefined;
      for (const [i, step] of recorded.steps.entries()) {
        const facts = { ...step.contexts[family].facts, iptables: variant };
        const context = { ...step.contexts[family], facts };
        if (i === 0) ns.run(iptables.setup(context));
        const want = step.recorded[family];
        if (want === undefined) continue;
        plan = makePlan(step.snapshot, context, plan);
        const to = iptables.desired(plan, context, state);
        const reading = iptables.observe(context);
        const from =
          state === undefined
            ? ({ kind: "observed", observed: readIn(ns, reading) } as const)
            : ({ kind: "state", state } as const);
        ns.run(iptables.diff(from, to, context, 0).steps);
        state = to;
        expect(tables(canonical(ns.save(context.family.iptables))), `step ${i + 1} ${family}`).toEqual(tables(want));
        const again = iptables.diff({ kind: "observed", observed: readIn(ns, reading) }, to, context, 0);
        // Sysctls are written only where they differ.
        expect(
          again.steps.filter((s) => s.kind === "exec"),
          "what was just written is seen as right",
        ).toEqual([]);
      }
    }
    ns.close();
  });
});

/** Tables by name: their order is that of their creation in iptables-nft, and fixed in legacy. */
function tables(text: string): Record<string, string[]> {
  return Object.fromEntries(
    text
      .split(/^\*/m)
      .slice(1)
      .map((t) => [t.slice(0, t.indexOf("\n")), t.split("\n").slice(1, -1)]),
  );
}
