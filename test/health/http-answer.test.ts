/** Paths and queries of request targets in every form that Bun hands over. */
import { expect, test } from "bun:test";
import { requestPath, requestQuery } from "../../src/model/http-answer.ts";

test.each([
  ["http://127.0.0.1:10256/healthz", "/healthz"],
  ["http://[::1]:10256/healthz?x=/y#z", "/healthz"],
  ["http://host", "/"],
  ["http://host?x=1", "/"],
  ["/healthz?x", "/healthz"],
  ["/a/b#c", "/a/b"],
  ["/", "/"],
  ["//evil/healthz", "//evil/healthz"],
  ["foo:1", "/"],
])("%s is %s", (url, path) => expect(requestPath(url)).toBe(path));

test("queries", () => {
  expect(requestQuery("/p?seconds=5&x").get("seconds")).toBe("5");
  expect(requestQuery("http://h/p").get("seconds")).toBeNull();
});
