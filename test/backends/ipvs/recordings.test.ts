import { expect, test } from "bun:test";
import { ipvs } from "../../../src/backends/ipvs/index.ts";
import type { Context } from "../../../src/model/context.ts";
import { makePlan } from "../../../src/model/planner.ts";
import type { Snapshot } from "../../../src/model/snapshot.ts";
import type { Step } from "../../../src/model/step.ts";
import { canonicalIpset, canonicalIptables, canonicalIpvs } from "../../conformance/canonical.ts";
import { casesOf, readCase, recorded } from "../../conformance/case-file.ts";
import { contextsOf, Objects } from "../../uml/host.ts";

/** What a tool was told by the steps that make everything from nothing. */
function inputOf(steps: readonly Step[], tool: string): string {
  return steps.flatMap((s) => (s.kind === "exec" && s.tool === tool ? (s.input ?? []) : [])).join("");
}

/** Restore input as `iptables-save` would print it once loaded into an empty kernel. */
function saved(input: string): string {
  const tables = input.split("COMMIT\n").map((section) => {
    const [table = "", ...lines] = section.trim().split("\n");
    const inserted = lines.filter((l) => l.startsWith("-I ")).toReversed();
    const builtIn = [...new Set(inserted.map((l) => l.split(" ")[1]))].map((name) => `:${name} ACCEPT [0:0]`);
    const jumps = inserted.map((l) => `-A${l.slice(2)}`);
    return [table, ...builtIn, ...lines.filter((l) => !l.startsWith("-I ")), ...jumps, "COMMIT", ""].join("\n");
  });
  // iptables-legacy lists the table that was written last first.
  return tables
    .filter((t) => t.startsWith("*"))
    .toReversed()
    .join("");
}

function stepsFor(snapshot: Snapshot, context: Context): readonly Step[] {
  const state = ipvs.desired(makePlan(snapshot, context), context, undefined);
  const nothing = ipvs.observe(context).parse([]);
  return ipvs.diff({ kind: "observed", observed: nothing }, state, context, 0).steps;
}

function addresses(batch: string): string {
  return [...batch.matchAll(/^addr replace (\S+)/gm)]
    .map((m) => `${m[1]}\n`)
    .sort()
    .join("");
}

const kinds = ["iptables", "ip6tables", "ipset", "ipvs", "addrs"] as const;

/** Each kind of state in canonical form, for both families together. */
function desiredState(test: ReturnType<typeof readCase>, snapshot: Snapshot, zone: string): Record<string, string> {
  const all = contextsOf(test).list.flatMap((context) => stepsFor(snapshot, { ...context, zone }));
  return {
    iptables: canonicalIptables(saved(inputOf(all, "iptables-restore")), "ipvs"),
    ip6tables: canonicalIptables(saved(inputOf(all, "ip6tables-restore")), "ipvs"),
    ipset: canonicalIpset(inputOf(all, "ipset")),
    ipvs: canonicalIpvs(inputOf(all, "ipvsadm")),
    addrs: addresses(inputOf(all, "ip")),
  };
}

test.each(casesOf("ipvs").map((name) => [name]))("%s", (name) => {
  const play = readCase(name);
  const objects = new Objects(play);
  for (const [i, step] of play.steps.entries()) {
    for (const object of step.apply ?? []) objects.apply(object);
    for (const object of step.delete ?? []) objects.remove(object);
    const state = desiredState(play, objects.snapshot(), objects.node?.zone ?? "");
    const expected = recorded(name, "ipvs", i + 1);
    for (const kind of kinds) {
      let text = expected.get(kind) ?? "";
      // The foreign server that this case's host has; kept by not being touched.
      if (kind === "ipvs") text = text.replace("-A -t 10.200.0.1:80 -s rr\n", "");
      expect({ step: i + 1, kind, text: state[kind] }).toEqual({ step: i + 1, kind, text });
    }
  }
});
