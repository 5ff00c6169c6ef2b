/** Where a packet ends by the values of an ipvs-mode state: chains, sets and virtual servers. */
import type { IpvsState } from "../../src/backends/ipvs/index.ts";
import { jumps, setKeys, setName } from "../../src/backends/ipvs/names.ts";
import type { VirtualServer } from "../../src/backends/ipvs/state.ts";
import { parseRule, type Rule } from "../../src/tools/iptables.ts";
import { serverKey } from "../../src/tools/ipvsadm.ts";
import { add, type Outcomes, type Walked } from "./fate.ts";
import { splitAddress } from "./iptables-mode.ts";
import { type World, walkChain } from "./iptables-walk.ts";

export interface IpvsTables {
  readonly nat: ReadonlyMap<string, readonly Rule[]>;
  readonly filter: ReadonlyMap<string, readonly Rule[]>;
  readonly sets: ReadonlyMap<string, ReadonlySet<string>>;
  readonly servers: ReadonlyMap<string, VirtualServer>;
  readonly addresses: ReadonlySet<string>;
}

export function ipvsTables(state: IpvsState): IpvsTables {
  const { family } = state.context;
  const sets = new Map(setKeys.map((key) => [setName(key, family), new Set<string>()]));
  const servers = new Map<string, VirtualServer>();
  const addresses = new Set<string>();
  for (const service of state.services.values()) {
    for (const { set, entry } of service.elements.values()) sets.get(setName(set, family))?.add(entry);
    for (const [key, server] of service.servers) servers.set(key, server);
    for (const ip of service.addresses) addresses.add(ip);
  }
  return { nat: rulesOf(state, "nat"), filter: rulesOf(state, "filter"), sets, servers, addresses };
}

export function walkIpvs(tables: IpvsTables, packet: Walked): Outcomes {
  const local = (ip: string): boolean => packet.isLocal(ip) || tables.addresses.has(ip);
  const seen: Walked = { ...packet, isLocal: local };
  const outcomes: Outcomes = new Map();
  const world: World = { packet: seen, sets: tables.sets, remembered: new Set(), translated: false };
  const sent = packet.iif === "";
  const mark = walkChain(tables.nat, sent ? "OUTPUT" : "PREROUTING", 0, world)[0]?.mark ?? 0;
  const isHere = local(packet.daddr);
  const server =
    isHere || sent
      ? tables.servers.get(serverKey({ protocol: packet.protocol, ip: packet.daddr, port: packet.dport }))
      : undefined;
  if (sent && server !== undefined) return serve(tables, world, server, mark, outcomes);
  const hooks = sent ? (isHere ? ["OUTPUT", "INPUT"] : ["OUTPUT"]) : [isHere ? "INPUT" : "FORWARD"];
  for (const hook of hooks) {
    const verdict = walkChain(tables.filter, hook, mark, world)[0]?.verdict;
    if (verdict === "drop" || verdict === "reject") {
      add(outcomes, verdict, 1);
      return outcomes;
    }
  }
  if (server !== undefined) return serve(tables, world, server, mark, outcomes);
  add(outcomes, "pass", 1);
  return outcomes;
}

// --- internal ---

function rulesOf(state: IpvsState, table: "nat" | "filter"): ReadonlyMap<string, readonly Rule[]> {
  const out = new Map<string, Rule[]>();
  for (const chain of ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"]) out.set(chain, []);
  for (const [chain, text] of state.chains[table])
    out.set(
      chain,
      text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => {
          const rule = parseRule(line);
          if (rule === undefined) throw new Error(`not a rule: ${line}`);
          return rule;
        }),
    );
  for (const { chain, target } of jumps[table]) out.get(chain)?.push({ chain, words: [["-j", target]] });
  return out;
}

/** ipvs takes the packet: no real server, or one of them; what the node itself sent passes OUTPUT once more. */
function serve(tables: IpvsTables, world: World, server: VirtualServer, mark: number, outcomes: Outcomes): Outcomes {
  const weighted = [...server.reals].filter(([, weight]) => weight > 0);
  if (weighted.length === 0) add(outcomes, "reject", 1);
  const { protocol, ip, port } = server.id;
  for (const [real] of weighted) {
    const [daddr, dport] = splitAddress(real);
    const after: World = {
      ...world,
      packet: { ...world.packet, daddr, dport },
      translated: true,
      virtual: `${protocol} ${ip} ${port}`,
    };
    const out = world.packet.iif === "" ? walkChain(tables.filter, "OUTPUT", mark, after)[0]?.verdict : undefined;
    const masqueraded = walkChain(tables.nat, "POSTROUTING", mark, after)[0]?.verdict === "masquerade";
    add(outcomes, out === "drop" ? "drop" : `${real}${masqueraded ? " masqueraded" : ""}`, 1 / weighted.length);
  }
  return outcomes;
}
