/**
 * Plays all recorded cases of some modes: `bun test/conformance/run.ts iptables [nftables …] [--case NAME]… [--show]`.
 * Prints `MODE: N/N cases identical` for each and exits 1 when one differs.
 */
import { casesOf, type Mode } from "./case-file.ts";

export interface Result {
  readonly case: string;
  readonly mode: Mode;
  readonly differences: readonly { step: number; what: string; expected: string; actual: string }[];
  readonly log: string;
}

const worker = `${import.meta.dir}/case-worker.ts`;

/** Plays the cases of a mode, two at a time, each in namespaces of its own. */
export async function playMode(mode: Mode, names: readonly string[], onResult: (r: Result) => void): Promise<void> {
  const queue = [...names];
  const lane = async (): Promise<void> => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift()) onResult(await playCase(mode, name));
  };
  await Promise.all([lane(), lane()]);
}

async function playCase(mode: Mode, name: string): Promise<Result> {
  const argv = ["unshare", "-n", "-m", process.execPath, worker, mode, name];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "pipe", timeout: 180_000, killSignal: "SIGKILL" });
  const [text, errors] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  try {
    return JSON.parse(text);
  } catch {
    const difference = { step: 0, what: "worker", expected: "a result", actual: (text + errors).slice(-3000) };
    return { case: name, mode, differences: [difference], log: "" };
  }
}

/** A short unified view of what differs. */
export function showResult(result: Result): string {
  const out = [`${result.mode} ${result.case}:`];
  for (const d of result.differences) {
    const expected = d.expected.split("\n");
    const actual = d.actual.split("\n");
    out.push(`  step ${d.step} ${d.what}`);
    out.push(...expected.filter((l) => !actual.includes(l)).map((l) => `    - ${l}`));
    out.push(...actual.filter((l) => !expected.includes(l)).map((l) => `    + ${l}`));
    if (expected.toSorted().join("\n") === actual.toSorted().join("\n")) out.push("    (same lines, other order)");
  }
  return out.join("\n");
}

if (import.meta.main) {
  const args = process.argv.slice(2);
  const only = args.flatMap((a, i) => (args[i - 1] === "--case" ? [a] : []));
  const modes = args.filter((a, i) => !a.startsWith("--") && args[i - 1] !== "--case") as Mode[];
  let failed = 0;
  for (const mode of modes) {
    const names = casesOf(mode).filter((n) => only.length === 0 || only.includes(n));
    let good = 0;
    await playMode(mode, names, (result) => {
      if (result.differences.length === 0) good++;
      else console.log(`${showResult(result)}${args.includes("--show") ? `\n${result.log}` : ""}`);
    });
    failed += names.length - good;
    console.log(`${mode}: ${good}/${names.length} cases identical`);
  }
  process.exit(failed > 0 ? 1 : 0);
}
