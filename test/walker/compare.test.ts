/** Random clusters and packets: the walk through a backend's rule values ends where `explain` says, in every mode. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { explainPacket } from "../../src/explain/explain.ts";
import { nodeSource } from "../../src/explain/packet.ts";
import type { Context, ProxyMode } from "../../src/model/context.ts";
import type { FamilyName } from "../../src/model/family.ts";
import { makePlan } from "../../src/model/planner.ts";
import { Random } from "../model/random.ts";
import { randomContext, randomPackets, randomSnapshot } from "./arbitrary.ts";
import { printExplained, printOutcomes } from "./fate.ts";
import { walked, walkerOf } from "./walk.ts";

setDefaultTimeout(120_000);

/** CLUSTERS=400 for a long run; the seeds at the end once found differences. */
const count = Number(process.env["CLUSTERS"] ?? 60);
const seeds = [...Array.from({ length: count }, (_, i) => i + 1), 113, 317, 340];
const packetsEach = 120;
/** Mode, and whether it is nftables' compact layout. */
const modes: readonly (readonly [ProxyMode, boolean])[] = [
  ["iptables", false],
  ["nftables", false],
  ["nftables", true],
  ["ipvs", false],
];

for (const [mode, compact] of modes)
  for (const family of ["IPv4", "IPv6"] as FamilyName[])
    test(`${mode}${compact ? " compact" : ""} ${family}: ${seeds.length * packetsEach} packets end where explain says`, () => {
      const kinds = new Map<string, number>();
      const differences: string[] = [];
      for (const seed of seeds) {
        const random = new Random(seed * 15485863);
        const { context: standard, here } = randomContext(random, mode, family);
        const context: Context = { ...standard, gates: { nftablesCompact: compact } };
        const plan = makePlan(randomSnapshot(random, context), context);
        const walk = walkerOf(plan, context);
        for (const packet of randomPackets(random, plan, context, here, packetsEach)) {
          const verdict = explainPacket(plan, context, packet, here);
          const said = printExplained(verdict.fate);
          const found = printOutcomes(walk(walked(verdict.packet, here)));
          kinds.set(verdict.fate.kind, (kinds.get(verdict.fate.kind) ?? 0) + 1);
          if (said !== found && differences.length < 8)
            differences.push(
              `seed ${seed}: ${JSON.stringify(verdict.packet)} (${verdict.service})\n  explain: ${said}\n  walked:  ${found}\n  ${verdict.steps.map((s) => s.text).join(" | ")}\n  detect ${JSON.stringify(context.detectLocal)} nodePorts ${JSON.stringify(context.nodePorts)}`,
            );
        }
      }
      expect(differences.join("\n")).toBe("");
      // A comparison that never meets a refusal or an endpoint compares nothing.
      for (const kind of mode === "ipvs" ? ["dnat", "reject", "pass", "drop"] : ["dnat", "drop", "reject", "pass"])
        expect(kinds.get(kind) ?? 0).toBeGreaterThan(20);
      console.log(
        `${mode}${compact ? " compact" : ""} ${family}: ${[...kinds].map(([kind, n]) => `${n} ${kind}`).join(", ")}`,
      );
    });

test("the node speaks to itself from the address it speaks to", () => {
  const random = new Random(1);
  const { context, here } = randomContext(random, "iptables", "IPv4");
  expect(nodeSource("127.0.0.1", context, here)).toBe("127.0.0.1");
  expect(nodeSource("192.168.0.2", context, here)).toBe("192.168.0.2");
  expect(nodeSource("10.96.0.1", context, here)).toBe("192.168.0.2");
});
