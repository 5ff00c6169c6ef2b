/** Every recorded ipvs case against the real binary: two guests side by side, each playing half of the cases. */
import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { casesOf } from "../conformance/case-file.ts";
import { type GuestResult, guestUnavailable, runInGuest } from "./guest.ts";

const reason = guestUnavailable();
if (reason !== undefined) console.error(`ipvs conformance is skipped: ${reason}`);

const binary = process.env["KUBE_PROXY"] ?? `${import.meta.dir}/../../dist/kube-proxy`;
/** Comma-separated names, for work on one case; all otherwise. */
const only = (process.env["KP_CASES"] ?? "").split(",").filter((name) => name !== "");

/** Plays the cases in one guest. Processes are slow there, the more so beside other guests: hence the patience. */
function play(names: readonly string[]): Promise<GuestResult> {
  process.env["KP_PATIENCE_MS"] ??= "120000";
  const cases = names.flatMap((name) => ["--case", name]);
  return runInGuest([process.execPath, "test/conformance/run.ts", "ipvs", ...cases], 2400);
}

describe.skipIf(reason !== undefined)("conformance", () => {
  test("ipvs cases with the real binary", async () => {
    if (!existsSync(binary)) throw new Error(`${binary} does not exist: run scripts/build first`);
    const names = casesOf("ipvs").filter((name) => only.length === 0 || only.includes(name));
    // Dealt out like cards, so that the long random ones are shared.
    const hands = [0, 1].map((hand) => names.filter((_, i) => i % 2 === hand)).filter((hand) => hand.length > 0);
    const results = await Promise.all(hands.map(play));
    const identical = results.map((r) => Number(/^ipvs: (\d+)\/\d+ cases identical$/m.exec(r.stdout)?.[1] ?? 0));
    const sum = identical.reduce((a, b) => a + b, 0);
    console.log(`ipvs: ${sum}/${names.length} cases identical`);
    const faults = results.filter((r) => r.exitCode !== 0).map((r) => r.stdout + r.stderr);
    expect(faults).toEqual([]);
    expect(sum).toBe(names.length);
  }, 2_500_000);
});
