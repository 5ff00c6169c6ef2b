/** Tells from monitor events whether somebody else changed what is ours. No clocks, no processes: events in, verdicts out. */
import type { Drift } from "../backends/backend.ts";
import type { ProxyMode } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { MonitorEvent } from "../tools/xtables-monitor.ts";

export interface ForeignChange {
  /** Certain: it was ours. */
  readonly drift: readonly (Drift & { readonly family: FamilyName })[];
  /** `ours`: see drift; `others`: only objects of others; `unseen`: elements, or objects of the other family. */
  readonly verdict: "ours" | "others" | "unseen";
  readonly generation: number;
  /** `process 7149 (nft)`. */
  readonly by: string;
}

type ObjectEvent = Extract<MonitorEvent, { kind: "object" }>;

/** Objects remembered of one transaction: a flushed table of 10,000 Services must not fill our memory. */
const limit = 1000;

/** Collects the objects of a transaction until the line that names who made it. One for each monitor. */
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
    const [drift, count] = [this.#drift(), this.#count];
    this.#clear();
    if (own(event.pid, event.process)) return undefined;
    const verdict = drift.length > 0 ? "ours" : count > 0 ? "others" : "unseen";
    return { drift, verdict, generation: event.id, by: `process ${event.pid} (${event.process})` };
  }

  /**
   * The monitor ended in the middle of a transaction that is not ours: what is known of it. `lastLine` is what it was
   * printing: a rule that it does not understand ends it after it has named the table (measured, iptables 1.8.9).
   */
  ended(lastLine: string): ForeignChange["drift"] {
    const drift = this.#drift();
    this.#clear();
    const [, digit, table = ""] = /EVENT: -([46]) -t (\S+) ?$/.exec(lastLine) ?? [];
    if (digit === undefined || this.#mode !== "nftables" || table !== "kube-proxy") return drift;
    const family = digit === "6" ? "IPv6" : "IPv4";
    return [...drift, { kind: "rule", what: `a rule of table ${table} was added or removed`, family }];
  }

  // --- internal ---

  #drift(): ForeignChange["drift"] {
    return this.#objects.filter((o) => harms(o)).map((o) => ({ kind: kindOf(o), what: describe(o), family: o.family }));
  }

  #clear(): void {
    this.#objects = [];
    this.#count = 0;
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
  return object === "rule" && /^[A-Z]+$/.test(chain ?? "") ? "jump" : object;
}

function describe({ object, verb, table, chain, rule }: ObjectEvent): string {
  const place = chain === undefined ? `table ${table}` : `chain ${chain} of table ${table}`;
  if (object !== "rule") return `${place} ${verb === "delete" ? "deleted" : "added"}`;
  return `rule ${verb === "delete" ? "removed from" : "added to"} ${place}${rule === "" ? "" : `: ${rule}`}`;
}
