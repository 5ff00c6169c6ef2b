/** The probe names what is missing, and finds nothing missing on this machine. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { probe, probeCompact } from "../../../src/backends/nftables/probe.ts";
import type { StepResult } from "../../../src/model/step.ts";
import { testContext } from "../../model/context.ts";
import { kernelMissing, Netns } from "./kernel.ts";

setDefaultTimeout(60_000);

const version: StepResult = { exitCode: 0, stdout: "nftables v1.0.6 (Lester Gooch #5)\n", stderr: "" };
const fine: StepResult = { exitCode: 0, stdout: "", stderr: "" };
const context = testContext("nftables");
const check = (results: readonly StepResult[], skip = false, kernel: readonly [number, number] = [6, 1]) =>
  probe({ ...context, facts: { ...context.facts, kernel } }, { skipKernelVersionCheck: skip }).parse(results);

const lineOf = (word: string): number => {
  const [, step] = probe(context, { skipKernelVersionCheck: false }).steps;
  if (step?.kind !== "exec") throw new Error("no check");
  return (step.input?.join("") ?? "").split("\n").findIndex((line) => line.includes(word)) + 1;
};

describe("probe", () => {
  test("nothing is missing", () => {
    expect(check([version, fine])).toEqual({ ok: true, version: "1.0.6", faults: [] });
  });

  test("a kernel without fib is told with its option", () => {
    const stderr = `/dev/stdin:${lineOf("fib daddr")}:1-20: Error: Could not process rule: No such file or directory\n`;
    const { ok, faults } = check([version, { exitCode: 1, stdout: "", stderr }]);
    expect(ok).toBe(false);
    expect(faults).toEqual(["nft or the kernel lacks fib lookups: needs CONFIG_NFT_FIB and CONFIG_NFT_FIB_IPV4"]);
  });

  test("all that is missing is told at once", () => {
    const stderr = ["fib daddr", "masquerade fully"]
      .map((word) => `/dev/stdin:${lineOf(word)}:1-9: Error: Could not process rule: No such file or directory\n`)
      .join("");
    expect(check([version, { exitCode: 1, stdout: "", stderr }]).faults).toHaveLength(2);
  });

  test.each([
    [{ exitCode: -1, stdout: "", stderr: "" }, "nft was not found: install the nftables package, 1.0.1 or newer"],
    [{ ...version, stdout: "nftables v0.9.8 (E.D.S.)" }, "nft 0.9.8 is too old: install nftables 1.0.1 or newer"],
  ])("a bad nft: %o", (result, fault) => {
    expect(check([result, fine]).faults).toEqual([fault]);
  });

  test("an old kernel, and the way around", () => {
    expect(check([version, fine], false, [5, 4]).faults[0]).toStartWith(
      "kernel 5.4 is too old for nftables mode: 5.13",
    );
    expect(check([version, fine], true, [5, 4]).ok).toBe(true);
  });

  test("an nft that refuses the compact layout says why, in one line", () => {
    const stderr =
      "/dev/stdin:7:9-20: Error: can not use variable sized data types (integer) in concat expressions\nadd map\n";
    expect(probeCompact(context).parse([{ exitCode: 1, stdout: "", stderr }])).toBe(
      "nft or the kernel does not take maps keyed by random numbers: /dev/stdin:7:9-20: Error: can not use variable sized data types (integer) in concat expressions",
    );
    expect(probeCompact(context).parse([fine])).toBeUndefined();
  });

  const missing = kernelMissing();
  if (missing !== undefined) console.warn(`nftables probe against the kernel skipped: ${missing}`);
  test.skipIf(missing !== undefined).each(["IPv4", "IPv6"] as const)("against this kernel, %s", (family) => {
    const netns = new Netns();
    try {
      const reading = probe(testContext("nftables", family), { skipKernelVersionCheck: false });
      expect(reading.parse(netns.run(reading.steps)).faults).toEqual([]);
      const compact = probeCompact(testContext("nftables", family));
      expect(compact.parse(netns.run(compact.steps))).toBeUndefined();
      expect(netns.exec(["nft", "list", "tables"]).stdout).toBe("");
    } finally {
      netns.close();
    }
  });
});
