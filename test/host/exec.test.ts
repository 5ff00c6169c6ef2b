import { describe, expect, test } from "bun:test";
import { execute } from "../../src/host/exec.ts";
import { openInput } from "../../src/host/tool-input.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

const big = Array.from({ length: 5000 }, (_, i) => `line ${i} of a rather long script\n`);

describe("openInput", () => {
  test("nothing is no input", () => {
    expect(openInput(undefined).stdin).toBe("ignore");
    expect(openInput([]).stdin).toBe("ignore");
  });

  test("small input stays in memory, large input becomes an unnamed file", () => {
    const small = openInput(["a", "b\n"]);
    expect(small.stdin).toEqual(new TextEncoder().encode("ab\n"));
    const large = openInput(big);
    expect(typeof large.stdin).toBe("number");
    large.close();
  });

  test("without a place for a file (read-only system) it stays in memory", () => {
    const input = openInput(big, ["/proc", "/nowhere"]);
    expect(input.stdin).toEqual(new TextEncoder().encode(big.join("")));
  });
});

describe("execute", () => {
  test("output goes to the sink and is not kept", async () => {
    let bytes = 0;
    const onStdout = (chunk: Uint8Array) => {
      bytes += chunk.length;
    };
    const dir = scripts({ big: "head -c 3000000 /dev/zero" });
    const outcome = await execute({ tool: "big", args: [] }, { toolDirs: [dir], onStdout });
    expect([bytes, outcome.stdout, outcome.exitCode]).toEqual([3_000_000, "", 0]);
  });

  test("a sink that throws is the caller's error, not an unhandled one", async () => {
    const onStdout = () => {
      throw new Error("sink");
    };
    const dir = scripts({ say: "echo one; sleep 0.1; exec yes" });
    const run = execute({ tool: "say", args: [] }, { toolDirs: [dir], onStdout });
    await expect(run).rejects.toThrow("sink");
  });

  test("a tool that is no file is missing", async () => {
    const dir = temporaryDir();
    await Bun.$`mkdir ${dir}/tool`;
    expect((await execute({ tool: "tool", args: [] }, { toolDirs: [dir] })).trouble).toBe("missing");
  });
});
