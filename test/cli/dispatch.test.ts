/** Subcommands: found by the first word, their flags parsed by the same grammar, mistakes told in one line. */
import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command, CommandModule } from "../../src/cli/commands.ts";
import { runCommand } from "../../src/cli/dispatch.ts";
import { flag } from "../../src/cli/flag.ts";
import { programHelp, writeConfigFile } from "../../src/cli/output.ts";
import { listFlag, strayWords } from "../../src/cli/parse.ts";
import { ConfigError, fault } from "../../src/config/config-error.ts";

const command: CommandModule = {
  flags: [flag("Input", "from", "strings", "Folders.")],
  usage: "[flags] NAME",
  about: "Prints things.",
  run: async (parsed, output) => {
    if (parsed.words[0] === "bad") throw new ConfigError([fault("", "bad", undefined, "is no name")]);
    if (parsed.words[0] === "bug") throw new TypeError("ours");
    output.out(`${parsed.words} ${listFlag(parsed, "from")}\n`);
    return parsed.words.length;
  },
};

const known: readonly Command[] = [
  { name: "render", summary: "Prints.", load: async () => ({ command }) },
  { name: "diff", summary: "Never loaded.", load: () => Promise.reject(new Error("loaded")) },
];

async function run(...argv: readonly string[]) {
  let out = "";
  let err = "";
  const output = {
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      err += text;
    },
    width: 80,
  };
  return { code: await runCommand(argv, output, known), out, err };
}

test("the first word decides", async () => {
  expect(await run("render", "a", "--from=x", "b", "--from", "y")).toEqual({ code: 2, out: "a,b x,y\n", err: "" });
  expect(await run("--from=x", "render")).toEqual({ code: undefined, out: "", err: "" });
  expect(await run()).toEqual({ code: undefined, out: "", err: "" });
});

test("the user's mistakes are lines, our own are thrown", async () => {
  expect(await run("render", "--form=x", "--from")).toEqual({
    code: 1,
    out: "",
    err:
      "kube-proxy render: --form: is no flag of this program (did you mean --from?)\n" +
      "kube-proxy render: --from: needs a value: --from=strings\n",
  });
  expect((await run("render", "bad")).err).toBe("kube-proxy render: bad: is no name\n");
  expect(run("render", "bug")).rejects.toThrow("ours");
});

test("help of a command, and of the program with its commands", async () => {
  const { code, out } = await run("render", "-h");
  expect(code).toBe(0);
  expect(out).toStartWith(
    "Prints things.\n\nUsage: kube-proxy render [flags] NAME\n\nInput:\n      --from list\n          Folders.\n",
  );
  expect(programHelp(80, known)).toContain("\nCommands:\n  render  Prints.\n  diff    Never loaded.\n");
  expect(programHelp(80, [])).not.toContain("Commands:");
});

test("a word that is nearly a command says so", () => {
  expect(strayWords(["rendr", "start"], ["diff", "render"]).map(({ hint }) => hint)).toEqual([
    "did you mean the command render? It comes first",
    "",
  ]);
});

test("the file of --write-config-to", () => {
  const folder = mkdtempSync(join(tmpdir(), "kp-cli-"));
  try {
    writeConfigFile(join(folder, "c.yaml"), "a: b\n");
    expect(readFileSync(join(folder, "c.yaml"), "utf8")).toBe("a: b\n");
    expect(() => writeConfigFile(join(folder, "none/c.yaml"), "")).toThrow(
      /^--write-config-to: ".*": cannot be written: ENOENT/,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("nothing is lost when the process ends right after a large output", async () => {
  const script = `import { standardOutput } from ${JSON.stringify(join(import.meta.dir, "../../src/cli/output.ts"))};
standardOutput().out("x".repeat(79).concat("\\n").repeat(20_000)); process.exit(0);`;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  expect((await child.stdout.text()).length).toBe(1_600_000);
  expect(await child.exited).toBe(0);
});
