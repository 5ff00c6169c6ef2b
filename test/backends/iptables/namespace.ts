/** A network namespace of its own with one iptables variant in it: runs the backend's steps and says what the kernel holds. */
import type { Reading } from "../../../src/backends/backend.ts";
import type { Step, StepResult } from "../../../src/model/step.ts";

export type Variant = "nft" | "legacy";

export class Namespace {
  readonly #holder: Bun.Subprocess;

  private constructor(
    readonly variant: Variant,
    holder: Bun.Subprocess,
  ) {
    this.#holder = holder;
  }

  static async open(variant: Variant): Promise<Namespace> {
    const holder = Bun.spawn(["unshare", "-n", "sh", "-c", "echo ready; exec sleep 900"], { stdout: "pipe" });
    const reader = holder.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    return new Namespace(variant, holder);
  }

  close(): void {
    this.#holder.kill("SIGKILL");
  }

  /** Runs a tool inside; `iptables-restore` and its kin are those of the variant. */
  exec(tool: string, args: readonly string[], input: readonly string[] = []): StepResult {
    const name = tool.replace(/^(ip6?tables)(-restore|-save)?$/, `$1-${this.variant}$2`);
    const done = Bun.spawnSync(["nsenter", "-t", String(this.#holder.pid), "-n", name, ...args], {
      stdin: Buffer.from(input.join("")),
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C", XTABLES_LOCKFILE: `/tmp/xtables-${process.pid}.lock` },
    });
    return { exitCode: done.exitCode, stdout: done.stdout.toString(), stderr: done.stderr.toString() };
  }

  /** Runs steps in order; throws on the first that fails and may not. */
  run(steps: readonly Step[]): StepResult[] {
    return steps.map((step) => {
      if (step.kind === "sysctl") this.exec("sysctl", ["-qw", `${step.name.replaceAll("/", ".")}=${step.value}`]);
      if (step.kind !== "exec") return { exitCode: 0, stdout: "", stderr: "" };
      const result = this.exec(step.tool, step.args, step.input);
      if (result.exitCode !== 0 && step.mayFail !== true) {
        throw new Error(`${step.tool} ${step.args.join(" ")}: exit ${result.exitCode}\n${result.stderr}`);
      }
      return result;
    });
  }

  /** All of `iptables-save` of one family. */
  save(family: "iptables" | "ip6tables"): string {
    return this.run([{ kind: "exec", tool: `${family}-save`, args: [], about: "" }])[0]?.stdout ?? "";
  }
}

/** Runs a Reading to its end in a namespace. */
export function readIn<T>(ns: Namespace, reading: Reading<T>): T {
  const results = ns.run(reading.steps);
  const further = reading.further?.(results);
  return further === undefined ? reading.parse(results) : readIn(ns, further);
}
