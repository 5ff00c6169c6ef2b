/** The help text: every flag is there, no line is wider than the terminal. */
import { expect, test } from "bun:test";
import { flags } from "../../src/cli/flags.ts";
import { type HelpPage, helpText, wrap } from "../../src/cli/help.ts";

const page: HelpPage = {
  usage: ["[flags]", "COMMAND [flags]"],
  about: "Keeps this node's rules for Services.",
  commands: [
    {
      name: "render",
      summary: "Prints what would be written, for every object of the cluster, without touching the kernel.",
    },
    { name: "diff", summary: "Compares." },
  ],
  flags,
};

test.each([40, 60, 80, 120, 300])("fits %d columns", (width) => {
  const lines = helpText(page, width).split("\n");
  const longest = lines.filter((line) => line.length > Math.min(width, 120));
  // Names and single words are never broken.
  expect(longest.filter((line) => !/^ {6}--\S+( \S+)?$|^ *\S+$/.test(line))).toEqual([]);
  if (width >= 60) expect(longest).toEqual([]);
});

test("names every flag once, under its topic, and every command", () => {
  const text = helpText(page, 80);
  for (const { name, topic } of flags) {
    expect(text.split(new RegExp(`^ {2}(?:-., | {4})--${name}(?=[ \\[\\n])`, "m")).length).toBe(2);
    expect(text.replace(/\n/g, " ")).toContain(`${topic}:`);
  }
  expect(text).toContain("\n  diff    Compares.\n");
  expect(text).toContain(
    "      --healthz-port number\n          Port of /healthz; 0: none. Default: 10256. Deprecated: use\n",
  );
});

test("wraps at blanks only", () => {
  expect(wrap("aa bb cc", 5, "")).toEqual(["aa bb", "cc"]);
  expect(wrap("aaaaaaaa bb", 5, " ")).toEqual([" aaaaaaaa", " bb"]);
});
