/** The flag table against the recorded one: every name, short form, type and default. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Flag } from "../../src/cli/flag.ts";
import { extraTopic, flags } from "../../src/cli/flags.ts";
import { fields, type Shape } from "../../src/config/fields.ts";

const recorded = readFileSync(join(import.meta.dir, "../conformance/config/flags.tsv"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => line.trimEnd());

function row(flag: Flag): string {
  const type = { vmodule: "pattern=N,...", version: "version[=true]" }[flag.type as string] ?? flag.type;
  const usual = flag.type === "version" ? "" : flag.default;
  const old = flag.deprecated === undefined ? "" : ` (deprecated: use ${flag.deprecated.slice(2)})`;
  return [flag.name, flag.short ?? "", type, usual + old].join("\t").trimEnd();
}

test("the table holds exactly kube-proxy's flags, beside our own group", () => {
  const ours = flags.filter(({ topic }) => topic !== extraTopic).map(row);
  expect(ours.sort()).toEqual(recorded.slice(1).sort());
});

test("our own flags are named apart", () => {
  expect(flags.filter(({ topic }) => topic === extraTopic).map(({ name }) => name)).toEqual(["manifests"]);
});

test("every flag's field is a field of the configuration that takes its type", () => {
  const kinds: Readonly<Record<string, readonly string[]>> = {
    bool: ["bool"],
    string: ["text"],
    strings: ["texts"],
    int32: ["int"],
    float32: ["float"],
    duration: ["duration", "flush"],
    ip: ["text"],
    ipport: ["text"],
    quantity: ["quantity"],
    mapStringBool: ["gates"],
    Level: ["int"],
    vmodule: ["vmodule"],
    ProxyMode: ["text"],
    LocalMode: ["text"],
  };
  for (const { field, type, name } of flags) {
    if (field === undefined) continue;
    const shape = field
      .split(".")
      .reduce<Shape | undefined>((at, part) => (typeof at === "object" ? at[part] : undefined), fields);
    expect(`${name}: ${kinds[type]?.includes(String(shape))}`).toBe(`${name}: true`);
  }
});
