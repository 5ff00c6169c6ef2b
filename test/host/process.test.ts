import { expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { parseCapabilities, setOomScoreAdj } from "../../src/host/process.ts";
import { temporaryDir } from "./wrappers.ts";

test("capabilities by name", () => {
  expect(parseCapabilities("Name:\tx\nCapEff:\t0000000000003000\n")).toEqual(new Set(["net_admin", "net_raw"]));
  expect(parseCapabilities("CapEff:\t0000000000000000\n")).toEqual(new Set());
  expect(parseCapabilities("CapEff:\t8000000000000001\n")).toEqual(new Set(["chown", "cap63"]));
  expect(parseCapabilities("CapEff:\t000001ffffffffff\n")?.size).toBe(41);
  expect(parseCapabilities("nothing")).toBeUndefined();
});

test("oom_score_adj: written when it differs, else told in one line", () => {
  const dir = temporaryDir();
  writeFileSync(`${dir}/oom`, "0\n");
  expect(setOomScoreAdj(-999, `${dir}/oom`)).toBeUndefined();
  expect(readFileSync(`${dir}/oom`, "utf8")).toBe("-999\n");
  expect(setOomScoreAdj(-999, `${dir}/none`)).toBe(
    `cannot set ${dir}/none to -999 (ENOENT); lowering it needs CAP_SYS_RESOURCE`,
  );
});
