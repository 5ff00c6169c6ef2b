/** Tells from monitor events whether somebody else changed what is ours. No clocks, no processes: events in, verdicts out. */
import type { Drift } from "../backends/backend.ts";
import type { ProxyMode } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { MonitorEvent } from "../tools/xtables-monitor.ts";

export interface ForeignChange {
  readonly drift: readonly (Drift & { readonly family: FamilyName })[];
  /** Elements of some set or map changed, perhaps ours: the monitor does not say which. */
  readonly suspect: boolean;
  readonly pid: number;
  readonly process: string;
}

type ObjectEvent = Extract<MonitorEvent, { kind: "object" }>;

/** Objects remembered of one transaction: a flushed table of 10,000 Services must not fill our memory. */
const limit = 1000;

/** Collects the objects of a transaction until the line that names who made it. */
export class DriftWatch {
  readonly #mode: ProxyMode;
  #objects: ObjectEvent[] = [];
  #count = 0;

  constructor(mode: ProxyMode) {
    this.#mode = mode;
  }

  /** `own`: whether a process is a tool that we started. Undefined: nothing to do. */
  feed(event: MonitorEvent, own: (pid: number, process: string) => boolean): ForeignChange | undefined {
    if (event.kind === "object") {
      this.#count++;
      if (this.#objects.length < limit && isOurs(event, this.#mode)) this.#objects.push(event);
      return undefined;
    }
    const [objects, count] = [this.#objects, this.#count];
    this.#objects = [];
    this.#count = 0;
    if (own(event.pid, event.process)) return undefined;
    const drift = objects
      .filter((o) => harms(o))
      .map((o) => ({ kind: kindOf(o), what: describe(o), family: o.family }));
    const suspect = count === 0 && this.#mode === "nftables";
    if (drift.length === 0 && !suspect) return undefined;
    return { drift, suspect, pid: event.pid, process: event.process };
  }
}

// --- internal ---

/** iptables: KUBE- chains and whatever jumps to them; nftables: our table. ipvs uses iptables chains too. */
function isOurs(event: ObjectEvent, mode: ProxyMode): boolean {
  if (mode === "nftables") return event.table === "kube-proxy";
  if (!["nat", "filter", "mangle"].includes(event.table)) return false;
  return event.chain === undefined || event.chain.startsWith("KUBE-") || / -j KUBE-/.test(` ${event.rule}`);
}

/** KUBE- chains of others (kubelet's KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT) are theirs; a new table harms nobody. */
function harms({ object, verb, chain }: ObjectEvent): boolean {
  if (chain !== undefined && /^KUBE-(KUBELET-|IPTABLES-HINT)/.test(chain)) return false;
  return object === "rule" || verb === "delete";
}

function kindOf({ object, chain }: ObjectEvent): string {
  return object === "rule" && chain !== undefined && !chain.includes("-") ? "jump" : object;
}

function describe({ object, verb, table, chain, rule }: ObjectEvent): string {
  const place = chain === undefined ? `table ${table}` : `chain ${chain} of table ${table}`;
  if (object !== "rule") return `${place} ${verb === "delete" ? "deleted" : "added"}`;
  return `rule ${verb === "delete" ? "removed from" : "added to"} ${place}${rule === "" ? "" : `: ${rule}`}`;
}
