/** A backend over a Set of names, and a kernel that can refuse some: for tests of the loop, not of rules. */
import type { Backend } from "../../src/backends/backend.ts";
import { CommandError } from "../../src/host/command-error.ts";
import type { ExecStep, Step, StepResult } from "../../src/model/step.ts";

export type ToyState = ReadonlySet<string>;

/** Objects are `service=endpoint,endpoint`. */
export const toyBackend: Backend<ToyState, ToyState> = {
  setup: () => [],
  cleanup: () => [],
  desired: (plan) =>
    new Set(
      [...plan.services.values()].map((s) => `${s.key}=${s.ports.flatMap((p) => p.endpoints.map((e) => e.ip)).join()}`),
    ),
  observe: () => ({
    steps: [{ kind: "exec", tool: "list", args: [], about: "list" }],
    parse: ([r]) => new Set(r?.stdout.split("\n").filter((l) => l !== "")),
  }),
  diff: (from, to) => {
    const held = from.kind === "state" ? from.state : from.observed;
    const lines = [
      ...[...to].filter((o) => !held.has(o)).map((o) => `+${o}`),
      ...[...held].filter((o) => !to.has(o)).map((o) => `-${o}`),
    ];
    const steps: Step[] =
      lines.length === 0 ? [] : [{ kind: "exec", tool: "write", args: [], input: lines, about: "write" }];
    return { steps, state: to, counts: { objects: to.size } };
  },
  inspect: (state) => ({
    steps: [{ kind: "exec", tool: "list", args: [], about: "list" }],
    parse: ([r]) => {
      const held = new Set(r?.stdout.split("\n"));
      return [...state].filter((o) => !held.has(o)).map((o) => ({ kind: "object", what: o }));
    },
  }),
  blame: (_, stderr) => /culprit (\S+)/.exec(stderr)?.slice(1) ?? [],
};

/** Holds objects; a write is atomic. */
export class ToyKernel {
  readonly objects = new Set<string>();
  readonly log: string[] = [];
  /** Undefined: accepted; a text: refused with it on stderr. */
  refuse: (line: string) => string | undefined = () => undefined;
  /** Every write that held a refused line, and the next ones with a count. */
  failNext = 0;

  run = async (steps: readonly Step[]): Promise<readonly StepResult[]> => {
    const results: StepResult[] = [];
    for (const [i, step] of steps.entries()) {
      if (step.kind === "exec") results.push({ exitCode: 0, stdout: this.#exec(step, i), stderr: "" });
    }
    return results;
  };

  #exec(step: ExecStep, index: number): string {
    this.log.push(step.tool);
    if (step.tool === "list") return [...this.objects].join("\n");
    const error = this.failNext-- > 0 ? "out of luck" : step.input?.map(this.refuse).find((e) => e !== undefined);
    if (error !== undefined) {
      throw new CommandError({ argv: ["write"], about: "write", exitCode: 1, stderr: error, inputLines: [] }, index);
    }
    for (const line of step.input ?? []) {
      if (line.startsWith("+")) this.objects.add(line.slice(1));
      else this.objects.delete(line.slice(1));
    }
    return "";
  }
}
