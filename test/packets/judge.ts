/** Makes the connections of table cases and says which did not end as they should. */
import type { FamilyName } from "../../src/model/family.ts";
import type { Lab } from "../lab/lab.ts";
import type { Attempt, Outcome } from "../lab/probe.ts";
import { nodeAddresses, type Pod, placeAddress, placeSpace, podAddress, podNamed } from "../lab/topology.ts";
import { doorAddress, type Placed } from "./objects.ts";
import type { Fate, Packet, Row } from "./row.ts";
import type { Case } from "./table.ts";

/** Enough that chance misses one of two pods only once in a hundred million packets; ipvs takes turns. */
const connectionsPerPod = { chance: 15, turns: 4 } as const;
const silenceMs = 1300;
const atOnce = 300;

/** How the kernel chooses among equal endpoints. */
export type Choice = keyof typeof connectionsPerPod;

export interface Verdict {
  readonly packets: number;
  readonly connections: number;
  /** One line for each packet that ended elsewhere. */
  readonly faults: readonly string[];
}

export interface Trial extends Case {
  readonly family: FamilyName;
  readonly placed: Placed;
}

/** Makes all trials; those that must be dropped all wait at once, at the end. `patience`: ms for an answer to come. */
export async function judge(lab: Lab, trials: readonly Trial[], patience: number, choice: Choice): Promise<Verdict> {
  const planned = trials.map((trial) => ({
    trial,
    attempts: attemptsOf(lab, trial, patience, choice),
    outcomes: [] as Outcome[],
  }));
  const all = planned.flatMap((plan) => plan.attempts.map((attempt) => ({ plan, attempt })));
  const quick = all.filter(({ plan }) => plan.trial.fate.kind !== "dropped");
  const silent = all.filter(({ plan }) => plan.trial.fate.kind === "dropped");
  for (const [list, size] of [
    [quick, atOnce],
    [silent, 4000],
  ] as const) {
    for (let i = 0; i < list.length; i += size) {
      const slice = list.slice(i, i + size);
      const outcomes = await lab.probe(slice.map(({ attempt }) => attempt));
      for (const [n, outcome] of outcomes.entries()) {
        slice[n]?.plan.outcomes.push(outcome);
      }
    }
  }
  return {
    packets: trials.length,
    connections: all.length,
    faults: planned.flatMap(({ trial, outcomes }) => {
      const fault = faultOf(trial, outcomes);
      return fault === undefined ? [] : [`${describe(trial)}: expected ${fateText(trial.fate)}, ${fault}`];
    }),
  };
}

function attemptsOf(lab: Lab, { packet, fate, family, placed }: Trial, patience: number, choice: Choice): Attempt[] {
  const source = packet.door === "node port, second address" ? undefined : placeAddress(packet.from, family);
  const { ip, port } = doorAddress(placed, packet.door, family);
  const attempt: Attempt = {
    namespace: lab.space(placeSpace(packet.from)),
    kind: packet.transport ?? "tcp",
    ...(source === undefined ? {} : { source }),
    ip,
    port: packet.port ?? port,
    patience: fate.kind === "dropped" ? silenceMs : patience,
  };
  const count = fate.kind === "answered" && fate.by.length > 1 ? fate.by.length * connectionsPerPod[choice] : 1;
  return Array.from({ length: count }, () => attempt);
}

/** What is wrong with the outcomes of one trial; undefined: nothing. */
export function faultOf(
  { packet, fate, family }: Pick<Trial, "packet" | "fate" | "family">,
  outcomes: readonly Outcome[],
): string | undefined {
  if (fate.kind !== "answered") {
    const other = outcomes.find((outcome) => outcome.kind !== fate.kind);
    return other === undefined ? undefined : `got ${outcomeText(other, family)}`;
  }
  const seen = new Set<Pod>();
  for (const outcome of outcomes) {
    const pod = outcome.kind === "answered" ? podNamed(outcome.by, family) : undefined;
    if (outcome.kind !== "answered" || pod === undefined || !fate.by.includes(pod)) {
      return `got ${outcomeText(outcome, family)}`;
    }
    if (!sourceFits(fate, packet, outcome.source, family)) {
      return `pod ${pod} saw ${outcome.source}`;
    }
    seen.add(pod);
  }
  const missing = fate.by.filter((pod) => !seen.has(pod));
  return missing.length === 0 ? undefined : `${outcomes.length} connections never reached ${missing.join(", ")}`;
}

function sourceFits(fate: Fate, packet: Packet, source: string, family: FamilyName): boolean {
  if (fate.kind !== "answered" || fate.source === "any") {
    return true;
  }
  const fromNode = nodeAddresses[family].includes(source);
  if (fate.source === "node" || packet.from === "node") {
    return fromNode;
  }
  // From outside to the second network the kernel chose the address: any that is not the node's is the client's.
  const own = placeAddress(packet.from, family);
  return packet.door === "node port, second address" ? !fromNode : source === own;
}

function describe({ row, packet, family }: { row: Row; packet: Packet; family: FamilyName }): string {
  const port = packet.port === undefined ? "" : ` port ${packet.port}`;
  return `${row.name} | ${family} ${packet.transport ?? "tcp"} ${packet.from} → ${packet.to} ${packet.door}${port}`;
}

export function fateText(fate: Fate): string {
  return fate.kind === "answered" ? `an answer by ${fate.by.join(" and ")} (source: ${fate.source})` : fate.kind;
}

export function outcomeText(outcome: Outcome, family: FamilyName): string {
  switch (outcome.kind) {
    case "answered":
      return `an answer by ${podNamed(outcome.by, family) ?? outcome.by} (saw ${outcome.source})`;
    case "failed":
      return `errno ${outcome.errno}`;
    default:
      return outcome.kind;
  }
}

/** Shares of many connections: one line when a pod's count is out of bounds (six standard deviations). */
export function spreadFault(
  outcomes: readonly Outcome[],
  pods: readonly Pod[],
  family: FamilyName,
): string | undefined {
  const counts = new Map(pods.map((pod) => [podAddress(pod, family), 0]));
  for (const outcome of outcomes) {
    if (outcome.kind !== "answered" || !counts.has(outcome.by)) {
      return outcomeText(outcome, family);
    }
    counts.set(outcome.by, (counts.get(outcome.by) ?? 0) + 1);
  }
  const mean = outcomes.length / pods.length;
  const bound = 6 * Math.sqrt(mean * (1 - 1 / pods.length));
  const off = [...counts].find(([, count]) => Math.abs(count - mean) > bound);
  return off === undefined
    ? undefined
    : `${off[0]} got ${off[1]} of ${outcomes.length}, not ${mean} ± ${bound.toFixed(0)}`;
}
