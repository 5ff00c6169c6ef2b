/** Cutting a byte stream into lines and lines into events, wherever the chunks happen to end. */
import { expect, test } from "bun:test";
import { decodeEvent } from "../../src/kube/watch-events.ts";
import { LineSplitter } from "../../src/kube/watch-lines.ts";

test("any chunking gives the same lines, multi-byte characters included", () => {
  const lines = ["", '{"a":"ü€𝄞"}', "x".repeat(3000), '{"b":1}', "tail"];
  const bytes = Buffer.from(lines.join("\n"));
  for (const size of [1, 2, 3, 7, 100, 5000]) {
    const splitter = new LineSplitter();
    const out: string[] = [];
    for (let i = 0; i < bytes.length; i += size) out.push(...splitter.push(bytes.subarray(i, i + size)));
    expect(out).toEqual(lines.slice(1, -1));
    expect(splitter.pending).toBe(4);
  }
});

test("a line without end is cut off, not collected for ever", () => {
  const splitter = new LineSplitter();
  const chunk = Buffer.alloc(8 * 1024 * 1024, "x");
  expect(() => {
    for (let i = 0; i < 10; i++) splitter.push(chunk);
  }).toThrow(RangeError);
});

test("events", () => {
  const object = { kind: "Service", metadata: { namespace: "ns", name: "a", resourceVersion: "7" } };
  const line = (type: unknown, raw: unknown = object) => JSON.stringify({ type, object: raw });
  expect(decodeEvent(line("ADDED"))).toMatchObject({ kind: "put", key: "ns/a", version: "7" });
  expect(decodeEvent(line("MODIFIED"))).toMatchObject({ kind: "put" });
  expect(decodeEvent(line("DELETED"))).toMatchObject({ kind: "delete", key: "ns/a", version: "7" });
  expect(decodeEvent(line("ERROR", { code: 410 }))).toEqual({ kind: "error", status: { code: 410 } });
  const end = { metadata: { resourceVersion: "9", annotations: { "k8s.io/initial-events-end": "true" } } };
  expect(decodeEvent(line("BOOKMARK", end))).toEqual({ kind: "bookmark", version: "9", initialEnd: true });
  for (const bad of ["", "[]", "null", "{}", "<html>", '{"type":"ADDED"', line("WHAT"), line(7)]) {
    expect(() => decodeEvent(bad)).toThrow();
  }
  expect(decodeEvent(line("ADDED", null))).toMatchObject({ kind: "put", key: "", version: "" });
});
