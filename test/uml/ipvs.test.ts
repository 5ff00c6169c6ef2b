import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { type GuestResult, guestUnavailable, runInGuest } from "./guest.ts";
import { scenarioNames } from "./scenarios.ts";

setDefaultTimeout(900_000);

const reason = guestUnavailable();
if (reason !== undefined) console.error(`ipvs in the guest is skipped: ${reason}`);

const bun = process.execPath;

function jsonLines(result: GuestResult): readonly Record<string, unknown>[] {
  const lines = result.stdout.split("\n").filter((l) => l.startsWith("{"));
  if (lines.length === 0) throw new Error(`the guest said nothing (exit ${result.exitCode}): ${result.stderr}`);
  return lines.map((l) => JSON.parse(l));
}

describe.skipIf(reason !== undefined)("in the guest", () => {
  test("output, exit code, environment and directory come through; the guest ends in time", async () => {
    const script = 'echo out; echo "$KP_MARK"; pwd; iptables --version; echo err >&2; exit 7';
    process.env["KP_MARK"] = "two words";
    const result = await runInGuest(["bash", "-c", script], 60);
    expect(result.exitCode).toBe(7);
    expect(result.stderr).toBe("err\n");
    const [out, mark, cwd, version] = result.stdout.split("\n");
    expect([out, mark]).toEqual(["out", "two words"]);
    expect(cwd).toBe(process.cwd());
    expect(version).toContain("(legacy)");
    const late = await runInGuest(["sleep", "600"], 5);
    expect(late.exitCode).toBe(124);
    expect(late.stderr).toContain("UML_TIMEOUT");
  });

  test("scenarios: draining, moving, restart, exclusion, repair, cleanup, probe", async () => {
    const results = jsonLines(await runInGuest([bun, "test/uml/scenarios.ts"], 400));
    expect(results.filter((r) => r["ok"] !== true)).toEqual([]);
    expect(results.map((r) => r["scenario"])).toEqual([...scenarioNames]);
  });

  // All cases are played with the real binary by test/conformance; these are the broadest, and are looked at for drift.
  test("recorded cases through the backend alone", async () => {
    const names = ["fuzz-0010", "fuzz-0012", "steps-type-change", "ipvs-exclude-cidrs"];
    const results = jsonLines(await runInGuest([bun, "test/uml/cases.ts", ...names], 300));
    const cases = results.filter((r) => "case" in r);
    expect(cases.filter((r) => JSON.stringify(r["differences"]) !== "[]")).toEqual([]);
    expect(cases.map((r) => r["case"])).toEqual(names);
  });
});
