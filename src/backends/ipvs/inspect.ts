/** A look for what somebody else changed of ours: everything that a full comparison would have to mend. */
import type { ExecStep, StepResult } from "../../model/step.ts";
import type { Drift, Reading } from "../backend.ts";
import { type Difference, fromObserved } from "./difference.ts";
import { device, tables } from "./names.ts";
import { observe } from "./observe.ts";
import { sysctls } from "./setup.ts";
import type { IpvsObserved, IpvsState } from "./state.ts";

/**
 * Six reads and one for the sysctls. Measured in the user-mode guest with 1,000 virtual servers of three endpoints:
 * ipvsadm 0.6 s, ip 0.2 s, ipset and iptables-save 0.1 s each (about a tenth of that on real hardware).
 */
export function inspect(state: IpvsState): Reading<readonly Drift[]> {
  const reading = observe(state.context);
  const names = sysctls(state.context).map((step) => step.name);
  const readSysctls: ExecStep = {
    kind: "exec",
    tool: "grep",
    // Prints `path:value` for each file and passes over those that are not there.
    args: ["-sH", "", ...names.map((name) => `/proc/sys/${name}`)],
    mayFail: true,
    about: "read the sysctls of ipvs",
  };
  return {
    steps: [...reading.steps, readSysctls],
    parse: (results) => {
      const seen = reading.parse(results.slice(0, -1));
      return [...driftOf(seen, state), ...sysctlDrift(state, results.at(-1))];
    },
  };
}

// --- internal ---

function driftOf(seen: IpvsObserved, state: IpvsState): readonly Drift[] {
  const difference = fromObserved(seen, state, 0);
  const all = (kind: string, lines: readonly string[], what: (line: string) => string): readonly Drift[] =>
    lines.map((line) => ({ kind, what: what(line.trim()) }));
  return [
    ...(difference.device ? [{ kind: "device", what: `${device} is gone` }] : []),
    ...all(
      "set",
      difference.createSets.map((set) => set.name),
      (name) => `ipset ${name} is gone or of another type`,
    ),
    ...all("element", difference.addElements, (item) => `ipset element ${item} is gone`),
    ...all("element", difference.removeElements, (item) => `ipset element ${item} is not ours`),
    ...all("address", difference.addAddresses, (ip) => `${ip} is gone from ${device}`),
    ...all("address", difference.removeAddresses, (ip) => `${ip} on ${device} is not ours`),
    ...all(
      "server",
      [...difference.servers.additions, ...difference.servers.removals],
      (line) => `ipvsadm ${line} is needed`,
    ),
    // Weight 0 and no longer wanted, but not known to drain: nobody would ever remove it.
    ...all(
      "server",
      [...difference.servers.draining.keys()].filter((key) => !state.draining.has(key)),
      (key) => `ipvsadm real server ${key} is not ours`,
    ),
    ...ruleDrift(difference, seen, state),
  ];
}

function ruleDrift(difference: Difference, seen: IpvsObserved, state: IpvsState): readonly Drift[] {
  return tables.flatMap((table) => {
    const drift: Drift[] = [];
    const { insert, remove } = difference.jumps[table];
    if (insert.length + remove.length > 0) {
      const chains = new Set([...insert, ...remove].map((line) => line.split(" ")[1]));
      drift.push({ kind: "jump", what: `jumps of ${table} ${[...chains].join(", ")} are not as we left them` });
    }
    for (const [name, text] of state.chains[table]) {
      const found = seen.chains[table].get(name);
      const wanted = text.split("\n").length - 1;
      if (found === undefined) drift.push({ kind: "chain", what: `${table} ${name} is gone` });
      else if (found !== wanted)
        drift.push({ kind: "rule", what: `${table} ${name} has ${found} rules, not ${wanted}` });
    }
    return drift;
  });
}

function sysctlDrift(state: IpvsState, result: StepResult | undefined): readonly Drift[] {
  const values = new Map<string, string>();
  for (const line of (result?.stdout ?? "").split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) values.set(line.slice("/proc/sys/".length, colon), line.slice(colon + 1).trim());
  }
  return sysctls(state.context).flatMap(({ name, value }) => {
    const found = values.get(name);
    if (found === undefined || Number(found) === value) return [];
    return [{ kind: "sysctl", what: `${name.replaceAll("/", ".")} is ${found}, not ${value}` }];
  });
}
