/** Every command of README.md and CONTRIBUTING.md is executed, or checked for the reason that treatment.ts gives. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { documents, root, tableRows } from "./document.ts";
import { treatmentOf, treatments } from "./treatment.ts";

setDefaultTimeout(300_000);

const binary = process.env["KUBE_PROXY"] ?? `${root}/dist/kube-proxy`;
const space = `kpdocs-${process.pid}`;
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.log("docs: commands are not executed: needs root, for a network namespace");

const commands = documents.flatMap((d) => d.commands.map((command) => ({ file: d.file, command })));
const outputs = new Map<string, string>();
const running: { readonly child: Bun.Subprocess; readonly command: string }[] = [];

/** With the binary under test, in our namespace. */
function start(command: string) {
  const line = command.replaceAll("dist/kube-proxy", binary);
  const child = Bun.spawn(["ip", "netns", "exec", space, "sh", "-c", `exec ${line}`], {
    cwd: root,
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  return { child, text: Promise.all([child.stdout.text(), child.stderr.text()]) };
}

async function finish(command: string): Promise<{ code: number; out: string; err: string }> {
  const { child, text } = start(command);
  const [out, err] = await text;
  return { code: await child.exited, out, err };
}

/** Until the proxy says that it is healthy. */
async function ready(): Promise<void> {
  let last = "";
  for (let tries = 0; tries < 100; tries++) {
    const { code, out, err } = await finish("dist/kube-proxy status");
    if (code === 0) return;
    last = out + err;
    await Bun.sleep(200);
  }
  throw new Error(`the proxy is not ready: ${last}`);
}

test("each command has a treatment, each treatment a command", () => {
  expect(commands.length).toBeGreaterThan(15);
  expect(commands.filter(({ command }) => treatmentOf(command) === undefined)).toEqual([]);
  const unused = treatments.filter(([, t]) => !commands.some(({ command }) => treatmentOf(command) === t));
  expect(unused.filter(([pattern]) => !`${pattern}`.includes("kubectl")).map(([pattern]) => `${pattern}`)).toEqual([]);
});

test("each command is valid shell, and the files of this project that it names are there", () => {
  const faults: string[] = [];
  for (const { command } of commands) {
    const syntax = Bun.spawnSync(["bash", "-n", "-c", command]);
    if (syntax.exitCode !== 0) faults.push(`${command}: ${syntax.stderr}`);
    for (const [path] of command.matchAll(/(?<![\w./-])(scripts|test|src)\/[\w./-]+/g)) {
      if (!existsSync(`${root}/${path}`)) faults.push(`${command}: there is no ${path}`);
    }
    const program = /^(scripts\/\S+)/.exec(command)?.[1];
    if (program !== undefined && (statSync(`${root}/${program}`).mode & 0o111) === 0)
      faults.push(`${program} cannot be executed`);
  }
  expect(faults).toEqual([]);
});

describe.skipIf(!isRoot)("executed", () => {
  beforeAll(() => {
    if (!existsSync(binary)) throw new Error(`${binary} is not there: scripts/build makes it`);
    for (const argv of [
      ["ip", "netns", "add", space],
      ["ip", "-n", space, "link", "set", "lo", "up"],
      // A new namespace has what the machine has; the README shows what doctor says of 0.
      ["ip", "netns", "exec", space, "sysctl", "-qw", "net.ipv4.ip_forward=0"],
    ])
      expect(Bun.spawnSync(argv).exitCode).toBe(0);
  });

  afterAll(() => {
    for (const { child } of running) child.kill("SIGKILL");
    Bun.spawnSync(["ip", "netns", "del", space]);
  });

  for (const { file, command } of commands) {
    const treatment = treatmentOf(command);
    if (command.endsWith("--cleanup")) test("README.md: paths served", pathsAnswer);
    if (treatment === undefined || treatment.kind === "checked") continue;
    test(`${file}: ${command}`, async () => {
      if (treatment.kind === "background") {
        running.push({ child: start(command).child, command });
        return await ready();
      }
      if (command.endsWith("--cleanup")) await stopAll();
      const { code, out, err } = await finish(command);
      outputs.set(command, out);
      expect({ code, told: code === (treatment.exit ?? 0) ? "" : out.slice(-3000) + err.slice(-3000) }).toEqual({
        code: treatment.exit ?? 0,
        told: "",
      });
      // diff says nothing about equal things, as diff(1).
      expect(out === "").toBe(command.startsWith("dist/kube-proxy diff ") && code === 0);
    });
  }

  test("what the documents show is what the commands print", () => {
    const shown = documents.flatMap((d) => d.blocks.filter((b) => b.note.startsWith("output: ")));
    expect(shown.length).toBeGreaterThan(0);
    for (const { note, text } of shown) {
      const words = note.slice("output: ".length);
      const printed = [...outputs].filter(([command]) => command.includes(words) || hasAll(command, words));
      expect(printed.map(([command]) => command)).toHaveLength(1);
      expect(printed[0]?.[1]).toMatch(pattern(text));
    }
  });
});

/** Each path of the README's table at the address of its row, asked within our namespace while the proxy runs. */
async function pathsAnswer(): Promise<void> {
  let port: string | undefined;
  const wanted = tableRows(documents[0]?.text ?? "", "## Operations").flatMap(([where = "", paths = ""]) => {
    port = where === "the same" ? port : /^\w+BindAddress, `[\d.]+:(\d+)`$/.exec(where)?.[1];
    const named = [...paths.matchAll(/`(\/[^`]*)`/g)].map((m) => m[1] ?? "");
    return port === undefined
      ? []
      : named.map((path) => ({ url: `http://127.0.0.1:${port}${path}`, status: statusOf(path) }));
  });
  expect(wanted.length).toBeGreaterThan(14);
  const script = `for (const url of ${JSON.stringify(wanted.map((w) => w.url))}) console.log((await fetch(url)).status)`;
  const child = Bun.spawn(["ip", "netns", "exec", space, process.execPath, "-e", script], { stdout: "pipe" });
  const statuses = (await child.stdout.text()).trim().split("\n").map(Number);
  expect(wanted.map(({ url }, i) => ({ url, status: statuses[i] }))).toEqual([...wanted]);
}

/** What a GET gets. */
function statusOf(path: string): number {
  if (path === "/debug/flags/v") return 406;
  // Only with enableProfiling.
  return path.startsWith("/debug/pprof") ? 404 : 200;
}

/** `…` stands for anything within a line. */
function pattern(text: string): RegExp {
  const quoted = text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(quoted.replaceAll("…", "[^\\n]+"));
}

function hasAll(command: string, words: string): boolean {
  return words.split(" ").every((word) => command.split(" ").includes(word));
}

/** SIGTERM: code 0, rules stay. */
async function stopAll(): Promise<void> {
  for (const { child } of running.splice(0)) {
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
  }
}
