/** Reads the answers recorded from kube-proxy in conformance/http. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface RecordedAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

const folders = [join(import.meta.dir, "../conformance/http"), "/work/shared/conformance/http"];

export function recorded(name: string): RecordedAnswer {
  for (const folder of folders) {
    try {
      return parse(readFileSync(join(folder, `${name}.txt`), "utf8"));
    } catch {
      // The next folder.
    }
  }
  throw new Error(`no recording ${name} in ${folders.join(", ")}`);
}

function parse(text: string): RecordedAnswer {
  const [head = "", ...rest] = text.replaceAll("\r\n", "\n").split("\n\n");
  const [first = "", ...lines] = head.split("\n");
  const headers = lines.map((line): [string, string] => [
    line.split(": ")[0] ?? "",
    line.split(": ").slice(1).join(": "),
  ]);
  return { status: Number(first.split(" ")[1]), headers: new Map(headers), body: rest.join("\n\n") };
}

/** The keys of JSON data, nested, without the values. */
export function shape(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return typeof value;
  return Object.entries(value).map(([key, inner]) => [key, shape(inner)]);
}
