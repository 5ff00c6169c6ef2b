/** The walker of a mode over the state that its backend makes from a plan. */
import { iptables } from "../../src/backends/iptables/index.ts";
import { ipvs } from "../../src/backends/ipvs/index.ts";
import { nftables } from "../../src/backends/nftables/index.ts";
import { type Here, isLocal, type Packet } from "../../src/explain/packet.ts";
import type { Context } from "../../src/model/context.ts";
import type { Plan } from "../../src/model/plan.ts";
import type { Outcomes, Walked } from "./fate.ts";
import { tablesOf, walkIptables } from "./iptables-mode.ts";
import { ipvsTables, walkIpvs } from "./ipvs-mode.ts";
import { tableOf, walkNftables } from "./nftables-mode.ts";

export type Walk = (packet: Walked) => Outcomes;

/** `remembered`: names of the affinity lists (iptables) or sets (nftables) that know the sender. */
export function walkerOf(plan: Plan, context: Context, remembered: ReadonlySet<string> = new Set()): Walk {
  switch (context.mode) {
    case "iptables": {
      const tables = tablesOf(iptables.desired(plan, context, undefined));
      return (packet) => walkIptables({ tables, remembered }, packet);
    }
    case "nftables": {
      const table = tableOf(nftables.desired(plan, context, undefined));
      return (packet) => walkNftables(table, packet, remembered);
    }
    case "ipvs": {
      const tables = ipvsTables(ipvs.desired(plan, context, undefined));
      return (packet) => walkIpvs(tables, packet);
    }
  }
}

/** Pods come in by the bridge, others by the node's network. */
export function walked({ from, to }: Packet, here: Here): Walked {
  return {
    saddr: from.ip,
    daddr: to.ip,
    protocol: to.protocol,
    dport: to.port,
    iif: from.kind === "node" ? "" : from.kind === "pod" ? "cbr0" : "eth0",
    isLocal: (ip) => isLocal(ip, here),
  };
}
