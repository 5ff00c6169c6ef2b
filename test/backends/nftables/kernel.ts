/** A network namespace of its own, in which the steps of a backend are run with the real nft. */

import type { Step, StepResult } from "../../../src/model/step.ts";
import { canonicalNft } from "../../conformance/canonical.ts";

/** Why kernel tests cannot run here, or undefined. Printed by those that skip. */
export function kernelMissing(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root for a network namespace";
  const { exitCode } = Bun.spawnSync(["unshare", "-n", "-m", "nft", "--version"]);
  return exitCode === 0 ? undefined : "needs unshare and nft (Debian package nftables)";
}

export class Netns {
  readonly #holder: Bun.Subprocess;

  constructor() {
    // Ends by itself, should the test be killed.
    this.#holder = Bun.spawn(["unshare", "-n", "-m", "sleep", "300"], { stdout: "ignore", stderr: "ignore" });
    for (let i = 0; i < 500 && !this.#isReady(); i++) Bun.sleepSync(2);
    this.exec(["ip", "link", "set", "lo", "up"]);
  }

  /** The child starts in our namespace and leaves it a moment later. */
  #isReady(): boolean {
    const of = (pid: number | string) => Bun.spawnSync(["readlink", `/proc/${pid}/ns/mnt`]).stdout.toString();
    return of(this.#holder.pid) !== of("self");
  }

  exec(argv: readonly string[], input = ""): StepResult {
    const child = Bun.spawnSync(["nsenter", "-t", String(this.#holder.pid), "-n", "-m", ...argv], {
      stdin: Buffer.from(input),
    });
    return { exitCode: child.exitCode, stdout: child.stdout.toString(), stderr: child.stderr.toString() };
  }

  /** Starts a program that runs beside the test; it must end by itself. */
  spawn(argv: readonly string[], input = "") {
    return Bun.spawn(["nsenter", "-t", String(this.#holder.pid), "-n", "-m", ...argv], {
      stdin: Buffer.from(input),
      stdout: "ignore",
      stderr: "pipe",
    });
  }

  /** Runs steps in order; throws at the first failure. */
  run(steps: readonly Step[]): readonly StepResult[] {
    return steps.map((step) => {
      if (step.kind !== "exec") throw new Error(`unexpected step ${step.kind}`);
      const result = this.exec([step.tool, ...step.args], step.input?.join(""));
      if (result.exitCode !== 0 && step.mayFail !== true)
        throw new Error(`${step.about}: ${result.stderr}\n${step.input?.join("").slice(0, 4000)}`);
      return result;
    });
  }

  list(family: "ip" | "ip6"): string {
    return this.exec(["nft", "-s", "list", "table", family, "kube-proxy"]).stdout;
  }

  /** The same, independent of the order in which things were made. Elements of dynamic sets are left out. */
  table(family: "ip" | "ip6"): string {
    return canonicalNft(this.list(family));
  }

  close(): void {
    this.#holder.kill("SIGKILL");
  }
}
