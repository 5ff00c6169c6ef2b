/** Whether the kernel objects of an explanation are really there: what to run, and what its output says. Pure. */
import { device } from "../backends/ipvs/names.ts";
import type { Family } from "../model/family.ts";
import type { ExecStep, StepResult } from "../model/step.ts";
import { TABLE } from "../tools/nft.ts";
import type { KernelObject } from "./verdict.ts";

export interface Presence {
  readonly object: KernelObject;
  readonly state: "there" | "missing" | "unknown";
  /** Why it is unknown: the tool's first line; else empty. */
  readonly detail: string;
}

export interface LiveCheck {
  readonly steps: readonly ExecStep[];
  readonly parse: (results: readonly StepResult[]) => readonly Presence[];
}

/** One reading of each chain, server and element that the objects name; a chain is listed once. */
export function checkObjects(objects: readonly KernelObject[], family: Family): LiveCheck {
  const steps: ExecStep[] = [];
  const indexes = new Map<string, number>();
  const asked = objects.map((object) => {
    const step = reading(object, family);
    const key = [step.tool, ...step.args].join(" ");
    const known = indexes.get(key);
    if (known !== undefined) return { object, index: known };
    indexes.set(key, steps.length);
    steps.push(step);
    return { object, index: steps.length - 1 };
  });
  return {
    steps,
    parse: (results) => asked.map(({ object, index }) => judge(object, results[index])),
  };
}

// --- internal ---

const protocolFlags = { tcp: "-t", udp: "-u", sctp: "--sctp-service" } as const;

function reading(object: KernelObject, family: Family): ExecStep {
  switch (object.tool) {
    case "iptables":
      return run(family.iptables, "-w", "5", "-t", object.table, "-S", object.chain);
    case "nft":
      return object.kind === "chain"
        ? run("nft", "list", "chain", family.nft, TABLE, object.name)
        : run("nft", "get", "element", family.nft, TABLE, object.name, "{", object.key, "}");
    case "ipset":
      return run("ipset", "test", object.set, object.entry);
    case "ipvsadm":
      return run("ipvsadm", "-Ln", protocolFlags[object.protocol], object.at);
    case "ip":
      return run("ip", "-o", "address", "show", "dev", device, "to", object.address);
  }
}

function run(tool: string, ...args: readonly string[]): ExecStep {
  return { kind: "exec", tool, args, mayFail: true, about: `${tool} ${args.join(" ")}` };
}

const absent = /No chain|does not exist|No such file|is NOT in set|No such service|Cannot find device|incompatible/i;

function judge(object: KernelObject, result: StepResult | undefined): Presence {
  if (result === undefined) return { object, state: "unknown", detail: "was not looked for" };
  if (result.exitCode === 0) return { object, state: holds(object, result.stdout) ? "there" : "missing", detail: "" };
  if (absent.test(result.stderr)) return { object, state: "missing", detail: "" };
  const detail =
    result.exitCode === -1 ? `${object.tool} is not installed` : (result.stderr.trim().split("\n")[0] ?? "");
  return { object, state: "unknown", detail };
}

function holds(object: KernelObject, stdout: string): boolean {
  switch (object.tool) {
    case "iptables": {
      const words = object.words ?? [];
      return stdout.split("\n").some((line) => words.every((word) => `${line} `.includes(` ${word} `)));
    }
    case "ipvsadm":
      return object.real === undefined || stdout.split(/\s+/).includes(object.real);
    case "ip":
      return stdout.trim() !== "";
    default:
      return true;
  }
}
