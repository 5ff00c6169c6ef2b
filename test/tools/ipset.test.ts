import { describe, expect, test } from "bun:test";
import { parseSetLine, printSetLine } from "../../src/tools/ipset.ts";
import { recordedLines } from "./ipvsadm-recordings.ts";

describe("ipset lines", () => {
  test("every recorded line is printed as it was read", () => {
    const lines = recordedLines(".ipset");
    expect(lines.length).toBeGreaterThan(1000);
    for (const line of lines) {
      const parsed = parseSetLine(line);
      expect(parsed === undefined ? undefined : printSetLine(parsed)).toBe(`${line}\n`);
    }
  });

  test("what ipset save adds of its own is passed over", () => {
    const line = "create A hash:ip,port family inet6 hashsize 1024 maxelem 65536 bucketsize 12 initval 0x2ab594a2";
    expect(parseSetLine(line)).toEqual({ kind: "create", set: { name: "A", type: "hash:ip,port", family: "inet6" } });
  });

  test("removals read back", () => {
    for (const line of ["del A 10.0.0.1,tcp:80\n", "destroy A\n"]) {
      const parsed = parseSetLine(line);
      expect(parsed === undefined ? undefined : printSetLine(parsed)).toBe(line);
    }
  });

  test("sets of kinds that we never make are not read", () => {
    expect(parseSetLine("create L list:set size 8")).toBeUndefined();
    expect(parseSetLine("swap A B")).toBeUndefined();
    expect(parseSetLine("")).toBeUndefined();
  });
});
