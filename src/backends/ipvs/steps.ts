/** A difference as steps: what adds comes first, what removes last; one process a tool however many Services there are. */
import type { Context } from "../../model/context.ts";
import type { ExecStep, Step } from "../../model/step.ts";
import { printAddressLine } from "../../tools/ip-address.ts";
import { printSetLine, type SetLine } from "../../tools/ipset.ts";
import { asVerb, declare, restoreStep, section } from "../../tools/iptables-restore.ts";
import type { Difference, JumpDifference } from "./difference.ts";
import { chains, device, tables } from "./names.ts";
import type { IpvsState } from "./state.ts";

/** In this order no packet meets a rule without its set, or an address without its virtual server. */
export function stepsOf(difference: Difference, to: IpvsState): readonly Step[] {
  const { servers } = difference;
  const steps: (Step | undefined)[] = [
    difference.device ? makeDevice() : undefined,
    ...replaceSets(difference, to.context),
    setStep(additions(difference), "add set elements"),
    difference.takeover ? undefined : chainStep(difference, to),
    serverStep([...servers.additions, ...servers.removals]),
    addressStep(difference),
    // iptables mode's NAT comes before IPVS: connections go on through it until its rules are replaced.
    difference.takeover ? chainStep(difference, to) : undefined,
    setStep(removals(difference), "remove set elements"),
  ];
  return steps.filter((step) => step !== undefined);
}

/** `ipvsadm -R` goes on after a bad line and reports only the last one's success: its error output is the failure. */
export function serverStep(lines: readonly string[]): ExecStep | undefined {
  if (lines.length === 0) return undefined;
  const about = `${lines.length} changes of virtual servers`;
  return { kind: "exec", tool: "ipvsadm", args: ["-R"], input: lines, stderrFails: true, about };
}

/** Input for `ipset restore`; what is there already, or gone already, is no error. */
export function setStep(lines: readonly SetLine[], about: string): ExecStep | undefined {
  if (lines.length === 0) return undefined;
  return { kind: "exec", tool: "ipset", args: ["-exist", "restore"], input: lines.map(printSetLine), about };
}

// --- internal ---

/** The other family's reconciler may be faster: then this fails, and the addresses tell whether the device is there. */
function makeDevice(): ExecStep {
  const args = ["link", "add", device, "type", "dummy"];
  return { kind: "exec", tool: "ip", args, mayFail: true, about: `make ${device}` };
}

/** Sets of a wrong type are in use by rules: our chains are emptied before (and filled again after). */
function replaceSets({ replaceSets }: Difference, context: Context): readonly (Step | undefined)[] {
  if (replaceSets.length === 0) return [];
  const lines = replaceSets.map((name): SetLine => ({ kind: "destroy", name }));
  return [emptyChains(context), setStep(lines, "destroy sets of a wrong type")];
}

function emptyChains(context: Context): Step {
  const input = tables.flatMap((table) => section(table, chains[table].map(declare)));
  return restoreStep(context.family, input, "empty the chains that use sets of a wrong type");
}

function additions({ createSets, addElements }: Difference): readonly SetLine[] {
  return [
    ...createSets.map((set): SetLine => ({ kind: "create", set })),
    ...addElements.map((e) => elementLine("add", e)),
  ];
}

function removals({ removeElements }: Difference): readonly SetLine[] {
  return removeElements.map((e) => elementLine("del", e));
}

function elementLine(kind: "add" | "del", item: string): SetLine {
  const [name = "", entry = ""] = item.split(" ");
  return { kind, name, entry };
}

function addressStep({ addAddresses, removeAddresses }: Difference): ExecStep | undefined {
  const line = (verb: "replace" | "del", ip: string): string => printAddressLine({ verb, ip, device });
  const input = [...addAddresses.map((ip) => line("replace", ip)), ...removeAddresses.map((ip) => line("del", ip))];
  if (input.length === 0) return undefined;
  return { kind: "exec", tool: "ip", args: ["-batch", "-"], input, about: `addresses of ${device}` };
}

function chainStep(difference: Difference, to: IpvsState): Step | undefined {
  const input = tables.flatMap((table) => {
    const body = tableBody(difference.chains[table], to.chains[table], difference.jumps[table]);
    return body.length === 0 ? [] : section(table, body);
  });
  return input.length === 0 ? undefined : restoreStep(to.context.family, input, "ipvs chains");
}

function tableBody(
  names: readonly string[],
  texts: ReadonlyMap<string, string>,
  jumps: JumpDifference,
): readonly string[] {
  return [
    ...names.map(declare),
    ...names.map((name) => texts.get(name) ?? ""),
    ...jumps.remove.map((line) => asVerb("-D", line)),
    // Each goes to the head of its chain, so the last one first.
    ...jumps.insert.toReversed().map((line) => asVerb("-I", line)),
  ];
}
