/** Lines of the recorded ipvs cases, as material for printers and parsers. */
import { readdirSync, readFileSync } from "node:fs";

const cases = `${import.meta.dir}/../conformance/cases`;

/** All lines of recorded files of one kind. */
export function recordedLines(suffix: string): readonly string[] {
  const dirs = readdirSync(cases).map((name) => `${cases}/${name}/ipvs`);
  const files = dirs.flatMap((dir) => {
    try {
      return readdirSync(dir).map((f) => `${dir}/${f}`);
    } catch {
      return [];
    }
  });
  return files
    .filter((f) => f.endsWith(suffix))
    .flatMap((f) => readFileSync(f, "utf8").split("\n"))
    .filter((l) => l !== "");
}
