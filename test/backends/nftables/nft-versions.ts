/**
 * Plays random histories of the compact layout through other builds of nft and reads the table back:
 * `bun test/backends/nftables/nft-versions.ts /path/to/nft…` (as root). One line a build and family.
 */
import { type NftState, nftables } from "../../../src/backends/nftables/index.ts";
import { probeCompact } from "../../../src/backends/nftables/probe.ts";
import type { Context } from "../../../src/model/context.ts";
import { makePlan } from "../../../src/model/planner.ts";
import type { Step, StepResult } from "../../../src/model/step.ts";
import { testContext } from "../../model/context.ts";
import { Random, type RawService, randomChange, randomService, snapshotOf } from "../../model/random.ts";
import { Netns } from "./kernel.ts";
import { absent } from "./plans.ts";

const netns = new Netns();
const builds = process.argv.slice(2);
for (const family of ["IPv4", "IPv6"] as const)
  for (const nft of builds.length > 0 ? builds : ["nft"]) {
    const version = netns.exec([nft, "--version"]).stdout.trim();
    console.log(
      `${version}, ${family}: ${judge(nft, testContext("nftables", family, { gates: { nftablesCompact: true } }))}`,
    );
  }
netns.close();

function judge(nft: string, context: Context): string {
  const run = (steps: readonly Step[]): readonly StepResult[] =>
    netns.run(steps.map((step) => (step.kind === "exec" ? { ...step, tool: nft } : step)));
  const probe = probeCompact(context);
  const fault = probe.parse(run(probe.steps));
  if (fault !== undefined) return fault;
  let transactions = 0;
  let differences = 0;
  for (let seed = 1; seed <= 6; seed++) {
    const random = new Random(seed);
    let raw: readonly RawService[] = Array.from({ length: 15 }, (_, i) => randomService(random, i));
    let state: NftState | undefined;
    run(nftables.cleanup(context));
    for (let round = 1; round <= 4; round++) {
      const to = nftables.desired(makePlan(snapshotOf(raw), context), context, state);
      const from = state === undefined ? absent : ({ kind: "state", state } as const);
      const change = nftables.diff(from, to, context, round * 60_000);
      run(change.steps);
      transactions += change.steps.length;
      state = change.state;
      raw = randomChange(random, raw, seed * 100 + round * 10);
    }
    if (state === undefined) throw new Error("no round");
    const settled = { ...state, condemned: new Map<string, number>() };
    run(nftables.diff({ kind: "state", state }, settled, context, 1e9).steps);
    const reading = nftables.observe(context);
    const observed = reading.parse(run(reading.steps));
    const { chains, elements } = nftables.diff({ kind: "observed", observed }, settled, context, 1e9).counts;
    differences += (chains ?? 0) + (elements ?? 0);
  }
  run(nftables.cleanup(context));
  return `${transactions} transactions, ${differences} differences when read back`;
}
