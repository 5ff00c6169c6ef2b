/** ipvs mode's side of switching and cleaning up, in the user-mode Linux guest: one boot for both scenarios. */
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { guestUnavailable, runInGuest } from "../uml/guest.ts";

setDefaultTimeout(400_000);

const reason = guestUnavailable();
if (reason !== undefined) console.error(`clean-up of ipvs mode is skipped: ${reason}`);

describe.skipIf(reason !== undefined)("in the guest", () => {
  interface Seen {
    readonly scenario: string;
    readonly losses?: { readonly attempts: number };
    readonly servers?: number;
    readonly first?: { readonly out: string };
    readonly second?: object;
  }
  const results = new Map<string, Seen>();

  beforeAll(async () => {
    const { stdout, stderr, exitCode } = await runInGuest([process.execPath, "test/cleanup/ipvs-guest.ts"], 380);
    for (const line of stdout.split("\n").filter((l) => l.startsWith("{"))) {
      const result = JSON.parse(line);
      results.set(result.scenario, result);
    }
    if (results.size !== 2) throw new Error(`the guest ended with ${exitCode}: ${stderr.slice(-3000)}`);
  });

  test("iptables → ipvs → iptables: no connection fails, nothing of ipvs mode is left", () => {
    const result = results.get("switches");
    expect(result).toMatchObject({
      losses: { failed: 0, failures: [] },
      left: { servers: "", sets: "", device: false, chains: [], ours: true },
    });
    expect(result?.losses?.attempts).toBeGreaterThan(200);
  });

  test("--cleanup: our virtual servers, sets, device and chains go, those of others stay, twice", () => {
    const result = results.get("cleanup");
    expect(result).toMatchObject({ filled: true, same: true, again: true, first: { code: 0, err: "" } });
    expect(result?.servers).toBeGreaterThan(3);
    expect(result?.second).toEqual({ code: 0, out: "nothing to remove\n", err: "" });
    expect(result?.first?.out).toContain("virtual servers");
  });
});
