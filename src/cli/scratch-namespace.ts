/** An empty network namespace of our own, in which the real tools can be asked what they make of our input. */
import { runSteps } from "../host/run.ts";
import { findTool } from "../host/tool-path.ts";
import type { Step, StepResult } from "../model/step.ts";
import { Trouble } from "./trouble.ts";

export interface ScratchNamespace {
  /** Runs the steps in it. Sysctls and modules are the host's: steps about them are passed over. */
  readonly run: (steps: readonly Step[]) => Promise<readonly StepResult[]>;
  readonly close: () => void;
}

/** Held by a child process that ends with us; nothing of it is left. Throws Trouble where it cannot be made. */
export async function openScratchNamespace(): Promise<ScratchNamespace> {
  const unshare = toolPath("unshare");
  toolPath("nsenter");
  // The shell says that the namespace is there; then cat waits for the end of our pipe.
  const holder = Bun.spawn([unshare, "--net", "sh", "-c", "echo ready; exec cat"], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const reader = holder.stdout.getReader();
  const first = await reader.read();
  if (first.value === undefined) {
    const reason = (await new Response(holder.stderr).text()).trim();
    throw new Trouble(
      `cannot make a network namespace to compare in (${reason}): run this as root on the host, or in a privileged container`,
    );
  }
  const namespace = `--net=/proc/${holder.pid}/ns/net`;
  // Without a local route table ipvs takes no endpoint: every address would count as no unicast address.
  const up: Step = { kind: "exec", tool: "ip", args: ["link", "set", "lo", "up"], mayFail: true, about: "loopback" };
  await runSteps(inside(up, namespace));
  return {
    run: (steps) => runSteps(steps.flatMap((step) => inside(step, namespace))),
    close: () => {
      void reader.cancel().catch(() => {});
      holder.kill();
    },
  };
}

// --- internal ---

function toolPath(tool: string): string {
  const path = findTool(tool);
  if (path === undefined) throw new Trouble(`${tool} is not installed: install the package "util-linux"`);
  return path;
}

function inside(step: Step, namespace: string): readonly Step[] {
  if (step.kind === "sysctl" || (step.kind === "exec" && step.tool === "modprobe")) return [];
  if (step.kind === "pause") return [step];
  const path = findTool(step.tool);
  // Left to fail as it would outside, with the name of its package.
  if (path === undefined) return [step];
  return [
    {
      ...step,
      tool: "nsenter",
      args: [namespace, path, ...step.args],
      about: `${step.tool}, ${step.about}, in a scratch namespace`,
    },
  ];
}
