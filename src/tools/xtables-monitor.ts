/**
 * Lines of `xtables-monitor -e`: every change to nftables and iptables-nft tables, chains and rules, and who made it.
 * It keeps no cache (2 MB, where `nft monitor` holds every set and map: 54 MB at 3,000 Services, measured). Changes of
 * set and map elements show only as a generation without objects.
 */
import type { FamilyName } from "../model/family.ts";

export type MonitorEvent =
  | {
      readonly kind: "object";
      readonly family: FamilyName;
      readonly table: string;
      /** Undefined: the table itself. */
      readonly chain: string | undefined;
      readonly object: "table" | "chain" | "rule";
      readonly verb: "add" | "delete";
      /** For rules: what follows the chain name. */
      readonly rule: string;
    }
  | { readonly kind: "generation"; readonly id: number; readonly pid: number; readonly process: string };

const verbs = {
  "-N": { object: "chain", verb: "add" },
  "-X": { object: "chain", verb: "delete" },
  "-A": { object: "rule", verb: "add" },
  "-D": { object: "rule", verb: "delete" },
} as const;

/** Undefined for lines about other families and anything not understood. */
export function parseXtablesMonitorLine(text: string): MonitorEvent | undefined {
  const line = text.trim();
  const generation = /^NEWGEN: GENID=(\d+) PID=(\d+) NAME=(.*)$/.exec(line);
  if (generation !== null) {
    return { kind: "generation", id: Number(generation[1]), pid: Number(generation[2]), process: generation[3] ?? "" };
  }
  const table = /^EVENT: nft: (NEW|DEL) table: table (\S+) (ip6?) /.exec(line);
  if (table !== null) {
    const family = table[3] === "ip6" ? "IPv6" : "IPv4";
    const verb = table[1] === "NEW" ? "add" : "delete";
    return { kind: "object", family, table: table[2] ?? "", chain: undefined, object: "table", verb, rule: "" };
  }
  const object = /^EVENT: -([46]) -t (\S+) (-[NXAD]) (\S+) ?(.*)$/.exec(line);
  const verb = verbs[object?.[3] as keyof typeof verbs];
  if (object === null || verb === undefined) return undefined;
  const family = object[1] === "6" ? "IPv6" : "IPv4";
  return { kind: "object", family, table: object[2] ?? "", chain: object[4] ?? "", ...verb, rule: object[5] ?? "" };
}
