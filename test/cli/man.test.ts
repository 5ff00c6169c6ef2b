/** The manual page: without a warning of man(1), with every command and every flag; and --help that fits the terminal. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { commands } from "../../src/cli/commands.ts";
import { flags } from "../../src/cli/flags.ts";
import { grammar, ownFlags } from "../../src/cli/grammar.ts";
import { helpText } from "../../src/cli/help.ts";
import { manPage } from "../../src/cli/man-page.ts";
import { folder, kubeProxy, sh } from "./program.ts";

setDefaultTimeout(60_000);
const groff =
  Bun.which("man") === null || Bun.which("groff") === null ? "man-db and groff are not installed" : undefined;
if (groff !== undefined) console.warn(`man: formatting is not tested: ${groff}`);

test.skipIf(groff !== undefined)("man formats it without a warning, and shows every command and flag", async () => {
  const { code, out, err } = await kubeProxy("man");
  expect([code, err]).toEqual([0, ""]);
  const page = `${folder({ "kube-proxy.8": out })}/kube-proxy.8`;
  const env = ["env", "LC_ALL=C.UTF-8", "MANWIDTH=80", "MANROFFSEQ="];
  const strict = await sh([...env, "man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page]);
  expect([strict.code, strict.err]).toEqual([0, ""]);
  const text = (await sh([...env, "man", "-E", "UTF-8", "--nh", "--nj", "-l", page])).out;
  for (const { name } of flags) expect(text).toContain(`--${name}`);
  for (const { name, summary } of commands) {
    expect(text).toContain(`kube-proxy ${name}`);
    expect(text.replace(/\s+/g, " ")).toContain(summary);
  }
  expect(text).toMatch(/^EXIT STATUS$/m);
  expect(Math.max(...text.split("\n").map((line) => [...line].length))).toBeLessThanOrEqual(80);
});

test("what would be a request or an escape in roff is text", () => {
  const odd = [{ name: "odd", type: "string", default: "", topic: ".so", help: ".so /etc/passwd \\f" }] as const;
  const page = manPage([], odd, { version: "v1", date: "today" });
  expect(page).toContain("\\&.so /etc/passwd \\ef");
  expect(page).toContain('.SS "\\&.so"');
});

test("--help of every command names its exit codes, fits 60 columns, and repeats no flag", async () => {
  for (const { name, module, flags: table } of await grammar()) {
    const text = helpText({ usage: [`${name} ${module.usage}`], about: module.about, commands: [], flags: table }, 60);
    expect({ name, says: /Exit codes?:? /i.test(text.replace(/\s+/g, " ")) }).toEqual({ name, says: true });
    const wide = text
      .split("\n")
      .filter((line) => line.length > 60 && line.trim().includes(" ") && !/^(Usage:| {6}) /.test(line));
    expect({ name, wide }).toEqual({ name, wide: [] });
    const names = table.map((flag) => flag.name);
    expect({ name, twice: names.filter((one, i) => names.indexOf(one) !== i) }).toEqual({ name, twice: [] });
    const shorts = table.flatMap((flag) => flag.short ?? []);
    expect(new Set(shorts).size).toBe(shorts.length);
  }
  expect(ownFlags.length).toBeGreaterThan(50);
});

test("the program's --help lists the commands, and each command's --help is reached", async () => {
  const main = (await kubeProxy("--help")).out;
  for (const { name } of commands) expect(main).toMatch(new RegExp(`^  ${name} `, "m"));
  const one = await kubeProxy("render", "--help");
  expect(one).toMatchObject({ code: 0, err: "" });
  expect(one.out).toContain("Usage: kube-proxy render [flags]");
});
