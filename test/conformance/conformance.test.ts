/** Every recorded case of iptables and nftables mode, against the real binary on this kernel (ipvs: test/uml). */
import { expect, test } from "bun:test";
import { casesOf, type Mode } from "./case-file.ts";
import { playMode, type Result, showResult } from "./run.ts";

const root = process.getuid?.() === 0;
if (!root) console.log("conformance: skipped, network namespaces need root");

for (const mode of ["iptables", "nftables"] as const satisfies readonly Mode[]) {
  test.skipIf(!root)(
    `${mode}: every recorded case is identical`,
    async () => {
      const names = casesOf(mode);
      const different: Result[] = [];
      await playMode(mode, names, (result) => {
        if (result.differences.length > 0) different.push(result);
      });
      console.log(`${mode}: ${names.length - different.length}/${names.length} cases identical`);
      expect(different.map(showResult)).toEqual([]);
    },
    900_000,
  );
}
