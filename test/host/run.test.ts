import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { CommandError } from "../../src/host/command-error.ts";
import { type RunOptions, runSteps } from "../../src/host/run.ts";
import type { ExecStep, Step } from "../../src/model/step.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

function exec(tool: string, args: readonly string[] = [], more: Partial<ExecStep> = {}): ExecStep {
  return { kind: "exec", tool, args, about: "a test", ...more };
}

async function failure(steps: readonly Step[], options: RunOptions = {}): Promise<CommandError> {
  try {
    await runSteps(steps, options);
  } catch (error) {
    if (error instanceof CommandError) return error;
    throw error;
  }
  throw new Error("nothing failed");
}

describe("order and results", () => {
  test("results come in the order of the steps", async () => {
    const dir = scripts({ say: 'echo "$1"' });
    const results = await runSteps([exec("say", ["a"]), { kind: "pause", ms: 1, about: "" }, exec("say", ["b"])], {
      toolDirs: [dir],
    });
    expect(results.map((result) => result.stdout)).toEqual(["a\n", "", "b\n"]);
  });

  test("stops at the first failure and says how far it got", async () => {
    const out = temporaryDir();
    const dir = scripts({ good: "echo fine", bad: "echo no such thing >&2; exit 3", late: `touch ${out}/ran` });
    const error = await failure([exec("good"), exec("bad", ["-x"]), exec("late")], { toolDirs: [dir] });
    expect(error.step).toBe(1);
    expect(error.results.map((result) => result.stdout)).toEqual(["fine\n"]);
    expect(error.exitCode).toBe(3);
    expect(error.argv).toEqual([`${dir}/bad`, "-x"]);
    expect(error.message).toBe("bad (a test) failed with exit code 3; no such thing");
    expect(existsSync(`${out}/ran`)).toBe(false);
  });

  test("mayFail makes an exit code, and a missing tool, a result", async () => {
    const dir = scripts({ bad: "echo why >&2; exit 2" });
    const steps = [exec("bad", [], { mayFail: true }), exec("nft", [], { mayFail: true })];
    expect(await runSteps(steps, { toolDirs: [dir] })).toEqual([
      { exitCode: 2, stdout: "", stderr: "why\n" },
      { exitCode: -1, stdout: "", stderr: "" },
    ]);
  });

  test("an aborted signal ends a pause with its reason", async () => {
    const controller = new AbortController();
    const running = runSteps([{ kind: "pause", ms: 60_000, about: "" }], { signal: controller.signal });
    controller.abort(new Error("shutting down"));
    await expect(running).rejects.toThrow("shutting down");
  });
});

describe("input", () => {
  const text = Array.from({ length: 40_000 }, (_, i) => `line ${i} é\n`);

  test.each([1, 40_000])("%d pieces arrive whole and in order", async (count) => {
    const dir = scripts({ keep: "exec cat" });
    const pieces = text.slice(0, count);
    const [result] = await runSteps([exec("keep", [], { input: pieces })], { toolDirs: [dir] });
    expect(result?.stdout).toBe(pieces.join(""));
  });

  test("a tool can reopen its input as /dev/stdin, as nft does", async () => {
    const dir = scripts({ keep: "exec cat /dev/stdin" });
    const [result] = await runSteps([exec("keep", [], { input: text })], { toolDirs: [dir] });
    expect(result?.stdout.length).toBe(text.join("").length);
  });

  test("a tool that dies without reading raises nothing but its own failure", async () => {
    const dir = scripts({ die: "exit 9" });
    const error = await failure([exec("die", [], { input: text })], { toolDirs: [dir] });
    expect(error.exitCode).toBe(9);
  });

  test("no file descriptor stays open", async () => {
    const dir = scripts({ keep: "exec cat" });
    const open = () => readdirSync("/proc/self/fd").length;
    await runSteps([exec("keep", [], { input: text })], { toolDirs: [dir] });
    const before = open();
    for (let i = 0; i < 20; i++) await runSteps([exec("keep", [], { input: text })], { toolDirs: [dir] });
    expect(open()).toBeLessThanOrEqual(before);
  });
});

describe("faults", () => {
  test("a hanging tool, with a child that holds its pipes, is killed with all its children", async () => {
    const dir = scripts({ hang: "sleep 987654 & echo $! ; sleep 987654" });
    const error = await failure([exec("hang", [], { timeoutMs: 200 })], { toolDirs: [dir] });
    expect(error.trouble).toBe("timeout");
    expect(error.signal).toBe("SIGKILL");
    expect(error.message).toBe("hang (a test) did not end within 0.2 s and was killed");
    const running = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && cmdline(pid) === "sleep 987654");
    expect(running).toEqual([]);
  });

  test("a child that a tool leaves behind with its pipes does not keep us", async () => {
    const dir = scripts({ leave: "sleep 987653 & echo $!" });
    const [result] = await runSteps([exec("leave")], { toolDirs: [dir] });
    process.kill(Number(result?.stdout), "SIGKILL");
    expect(result?.exitCode).toBe(0);
  });

  test("a tool that ignores SIGTERM is killed all the same", async () => {
    const dir = scripts({ hang: "trap '' TERM; sleep 30" });
    expect((await failure([exec("hang", [], { timeoutMs: 200 })], { toolDirs: [dir] })).trouble).toBe("timeout");
  });

  test("death by signal is named, also with mayFail", async () => {
    const dir = scripts({ crash: "kill -SEGV $$" });
    const error = await failure([exec("crash", [], { mayFail: true })], { toolDirs: [dir] });
    expect(error.signal).toBe("SIGSEGV");
    expect(error.exitCode).toBeUndefined();
    expect(error.message).toBe("crash (a test) was killed by SIGSEGV");
  });

  test.each([
    ["nft", "nftables"],
    ["ip6tables-restore", "iptables"],
    ["conntrack", "conntrack"],
    ["ip", "iproute2"],
  ])("a missing %s names the package %s", async (tool, source) => {
    const error = await failure([exec(tool)], { toolDirs: [temporaryDir()] });
    expect(error.trouble).toBe("missing");
    expect(error.message).toBe(`${tool} (a test) is not installed: install the package "${source}"`);
  });

  test("a file that cannot be executed as a program says so", async () => {
    const dir = temporaryDir();
    await Bun.write(`${dir}/odd`, "\x7fELF nonsense");
    await Bun.spawn(["chmod", "755", `${dir}/odd`]).exited;
    const error = await failure([exec("odd")], { toolDirs: [dir] });
    expect(error.trouble).toBe("start");
    expect(error.message).toContain("odd (a test) could not be started: ");
  });

  test("megabytes on stderr are cut in the error, and the tool is not blocked by them", async () => {
    const dir = scripts({ noisy: "yes 'no such rule' | head -c 8000000 >&2; exit 1" });
    const error = await failure([exec("noisy")], { toolDirs: [dir] });
    expect(error.stderr.length).toBe(65_536);
    expect(error.message.length).toBeLessThan(1_000);
    expect(error.message).toContain("no such rule | no such rule | no such rule | (");
  });

  test("output beyond the limit ends the tool", async () => {
    const dir = scripts({ noisy: "exec yes" });
    const error = await failure([exec("noisy")], { toolDirs: [dir], maxStdout: 1_000_000 });
    expect(error.trouble).toBe("output");
  });

  test("megabytes within the limit come whole", async () => {
    const dir = scripts({ big: "head -c 20000000 /dev/zero" });
    const [result] = await runSteps([exec("big")], { toolDirs: [dir] });
    expect(result?.stdout.length).toBe(20_000_000);
  });

  test("a tool that fails once works the second time", async () => {
    const dir = temporaryDir();
    const tools = scripts({ once: `test -e ${dir}/seen && exit 0; touch ${dir}/seen; exit 1` });
    await failure([exec("once")], { toolDirs: [tools] });
    expect(await runSteps([exec("once")], { toolDirs: [tools] })).toHaveLength(1);
  });

  test("a tool that moved while we run is found again", async () => {
    const [first, second] = [temporaryDir(), scripts({ roam: "echo here" })];
    symlinkSync(`${second}/roam`, `${first}/roam`);
    const options = { toolDirs: [first, second] };
    await runSteps([exec("roam")], options);
    await Bun.spawn(["rm", `${first}/roam`]).exited;
    expect((await runSteps([exec("roam")], options))[0]?.stdout).toBe("here\n");
  });

  test("a tool name that is a path is refused", async () => {
    expect((await failure([exec("../../bin/true")])).trouble).toBe("missing");
  });

  test("control characters that a tool echoes do not reach the message", async () => {
    const dir = scripts({ echo: "printf 'bad \\033[31mname\\n' >&2; exit 1" });
    expect((await failure([exec("echo")], { toolDirs: [dir] })).message).toBe(
      "echo (a test) failed with exit code 1; bad  [31mname",
    );
  });
});

describe("environment", () => {
  test("is fixed: nothing of ours gets through", async () => {
    const dir = scripts({ show: "exec /usr/bin/env" });
    process.env["KP_SECRET"] = "1";
    const [result] = await runSteps([exec("show")], { toolDirs: [dir], env: { XTABLES_LOCKFILE: "/x" } });
    delete process.env["KP_SECRET"];
    const names = result?.stdout
      .trim()
      .split("\n")
      .filter((line) => !/^(PWD|SHLVL|_|OLDPWD)=/.test(line))
      .sort();
    expect(names).toEqual([
      "LC_ALL=C",
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin",
      "XTABLES_LOCKFILE=/x",
    ]);
  });

  test("exit codes survive a parent that ignores SIGCHLD", async () => {
    const program = `
      import { runSteps } from "${import.meta.dir}/../../src/host/run.ts";
      const results = await runSteps([{ kind: "exec", tool: "sh", args: ["-c", "exit 7"], mayFail: true, about: "" }]);
      console.log(results[0].exitCode);`;
    const child = Bun.spawn(["perl", "-e", '$SIG{CHLD}="IGNORE"; exec @ARGV', process.execPath, "-e", program], {
      stdout: "pipe",
    });
    expect(await new Response(child.stdout).text()).toBe("7\n");
  });
});

function cmdline(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}
