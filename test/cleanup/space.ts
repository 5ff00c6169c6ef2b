/** A network and mount namespace of its own, with a chosen default variant of iptables, in which tools and the binary run. */
import { cpSync, mkdtempSync, rmSync, symlinkSync, unlinkSync } from "node:fs";
import { resolve } from "node:path";

export const binary = resolve(process.env["KUBE_PROXY"] ?? `${import.meta.dir}/../../dist/kube-proxy`);

export interface Done {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

export class Space {
  readonly #holder: Bun.Subprocess<"ignore", "pipe", "inherit">;
  readonly #children: Bun.Subprocess[] = [];

  private constructor(
    readonly dir: string,
    setUp: readonly string[],
  ) {
    const script = [...setUp, "ip link set lo up", "echo ready", "exec sleep 900"].join("\n");
    const argv = ["unshare", "-n", "-m", "setpriv", "--pdeathsig", "KILL", "sh", "-ec", script, dir];
    this.#holder = Bun.spawn(argv, { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
  }

  static async open(variant: "nft" | "legacy" = "nft"): Promise<Space> {
    const dir = mkdtempSync("/tmp/kp-space-");
    makeAlternatives(`${dir}/alternatives`, variant);
    const space = new Space(dir, ['mount --bind "$0/alternatives" /etc/alternatives']);
    const reader = space.#holder.stdout.getReader();
    const { value } = await reader.read();
    reader.releaseLock();
    if (value === undefined) throw new Error("the namespace did not start");
    return space;
  }

  get pid(): number {
    return this.#holder.pid;
  }

  /** From now on the host does not have these tools. */
  hide(...tools: readonly string[]): void {
    for (const tool of tools)
      this.must(["sh", "-ec", `mount --bind /dev/null "$(readlink -f "$(command -v ${tool})")"`]);
  }

  argv(argv: readonly string[]): string[] {
    return ["nsenter", "-t", String(this.#holder.pid), "-n", "-m", ...argv];
  }

  run(argv: readonly string[], input = ""): Done {
    const done = Bun.spawnSync(this.argv(argv), {
      stdin: Buffer.from(input),
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
      timeout: 60_000,
    });
    return { code: done.exitCode, out: done.stdout.toString(), err: done.stderr.toString() };
  }

  /** Throws when it fails. */
  must(argv: readonly string[], input = ""): string {
    const { code, out, err } = this.run(argv, input);
    if (code !== 0) throw new Error(`${argv.join(" ")}: exit ${code}\n${err}`);
    return out;
  }

  /** A process that runs until `close` at the latest; both streams go to the file. */
  start(argv: readonly string[], logFile: string): Bun.Subprocess {
    const log = Bun.file(logFile);
    const child = Bun.spawn(this.argv(["setpriv", "--pdeathsig", "KILL", ...argv]), {
      stdin: "ignore",
      stdout: log,
      stderr: log,
    });
    this.#children.push(child);
    return child;
  }

  async close(): Promise<void> {
    for (const child of this.#children) child.kill("SIGKILL");
    await Promise.all(this.#children.map((child) => child.exited));
    this.#holder.kill("SIGKILL");
    await this.#holder.exited;
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function makeAlternatives(dir: string, variant: "nft" | "legacy"): void {
  cpSync("/etc/alternatives", dir, { recursive: true, verbatimSymlinks: true });
  for (const name of ["iptables", "ip6tables"])
    for (const suffix of ["", "-save", "-restore"]) {
      unlinkSync(`${dir}/${name}${suffix}`);
      symlinkSync(`/usr/sbin/${name}-${variant}${suffix}`, `${dir}/${name}${suffix}`);
    }
}

/** Resolves once `condition` holds; throws with `what` and the end of the log after `seconds`. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  log: () => string = () => "",
  seconds = 30,
): Promise<void> {
  const end = Date.now() + seconds * 1000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${seconds} s\n${log().slice(-3000)}`);
    await Bun.sleep(50);
  }
}
