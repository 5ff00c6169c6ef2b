import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { CommandError } from "../../src/host/command-error.ts";
import { runSteps } from "../../src/host/run.ts";
import type { SysctlStep } from "../../src/model/step.ts";
import { recordingLog } from "./log.ts";
import { missing } from "./namespace.ts";
import { temporaryDir } from "./wrappers.ts";

const step: SysctlStep = { kind: "sysctl", name: "net/a", value: 5, when: "differs", required: true, about: "a test" };

function tree(value: string | undefined) {
  const sysctlRoot = temporaryDir();
  mkdirSync(`${sysctlRoot}/net`);
  if (value !== undefined) writeFileSync(`${sysctlRoot}/net/a`, value);
  return { sysctlRoot, read: () => readFileSync(`${sysctlRoot}/net/a`, "utf8") };
}

describe("sysctl steps", () => {
  test.each([
    ["differs", "1\n", "5\n"],
    ["differs", "9\n", "5\n"],
    ["differs", "5 \t\n", "5 \t\n"],
    ["below", "1\n", "5\n"],
    ["below", "9\n", "9\n"],
  ] as const)("%s, from %p: %p", async (when, from, wanted) => {
    const { sysctlRoot, read } = tree(from);
    expect(await runSteps([{ ...step, when }], { sysctlRoot })).toEqual([{ exitCode: 0, stdout: "", stderr: "" }]);
    expect(read()).toBe(wanted);
  });

  test("an absent file: silent when optional, else an error that says so; never created", async () => {
    const { sysctlRoot } = tree(undefined);
    const log = recordingLog();
    await runSteps([{ ...step, optional: true }], { sysctlRoot, log });
    expect(log.lines).toEqual([]);
    const error = await runSteps([step], { sysctlRoot }).catch((e) => e);
    expect(error).toBeInstanceOf(CommandError);
    expect(error.message).toBe(
      `sysctl (a test) cannot set ${sysctlRoot}/net/a to 5: this kernel has no such setting (is a module missing?)`,
    );
    await runSteps([{ ...step, required: false }], { sysctlRoot, log });
    expect(log.lines).toHaveLength(1);
    expect(log.lines[0]).toStartWith("warn Sysctl not set, going on name=net/a");
  });
});

const reason = missing("unshare", "mount");
if (reason !== undefined) console.warn(`read-only sysctl test skipped: ${reason}`);

test.skipIf(reason !== undefined)(
  "a read-only /proc/sys names value, file and both ways out; what is right already is no error",
  async () => {
    const program = `
    import { runSteps } from "${import.meta.dir}/../../src/host/run.ts";
    const step = (value) => ({ kind: "sysctl", name: "net/ipv4/conf/all/route_localnet", value, when: "differs", required: true, about: "node ports" });
    await runSteps([step(0)]);
    try { await runSteps([step(1)]); } catch (error) { console.log(error.message); }`;
    const mount = "mount -o bind,ro /proc/sys /proc/sys";
    const args = ["unshare", "-n", "-m", "sh", "-c", `${mount} && exec "$@"`, "sh", process.execPath, "-e", program];
    const child = Bun.spawn(args, { stdout: "pipe" });
    expect(await new Response(child.stdout).text()).toBe(
      "sysctl (node ports) cannot set /proc/sys/net/ipv4/conf/all/route_localnet to 1 (it is 0): it is read-only here (EROFS); " +
        "set net.ipv4.conf.all.route_localnet=1 on the host, or run this once with the privilege (--init-only)\n",
    );
  },
);
