/** Virtual servers, sets, addresses and chains of ipvs mode behind the steps of an explanation. */
import { type SetKey, setName } from "../backends/ipvs/names.ts";
import type { Context } from "../model/context.ts";
import { joinHostPort } from "../model/ip.ts";
import type { Endpoint } from "../model/plan.ts";
import { ipPort } from "../tools/ipset.ts";
import type { Knocked } from "./frontend.ts";
import type { Naming } from "./naming.ts";
import type { KernelObject } from "./verdict.ts";

export function ipvsNaming(context: Context): Naming {
  const inSet = (key: SetKey, entry: string): KernelObject => ({
    tool: "ipset",
    set: setName(key, context.family),
    entry,
  });
  const entryOf = (at: Knocked): string => ipPort(at.ip, at.port.protocol, portOf(at));
  const server = (at: Knocked): KernelObject => ({
    tool: "ipvsadm",
    protocol: at.port.protocol,
    at: joinHostPort(at.ip, portOf(at)),
  });
  const real = (at: Knocked, e: Endpoint): KernelObject => ({
    tool: "ipvsadm",
    protocol: at.port.protocol,
    at: joinHostPort(at.ip, portOf(at)),
    real: joinHostPort(e.ip, e.port),
  });
  return {
    match: (at) =>
      at.kind === "node port" || context.nodePorts.addresses.includes(at.ip)
        ? [server(at)]
        : [{ tool: "ip", address: at.ip }, server(at)],
    ranges: (at) => [inSet("LOAD-BALANCER-FW", entryOf(at)), filter("KUBE-SOURCE-RANGES-FIREWALL", "-j DROP")],
    external: () => [],
    masquerade: (at) => [
      ...setsOf(at).map((key) => inSet(key, key.startsWith("NODE-PORT-") ? nodePortEntry(at) : entryOf(at))),
      nat("KUBE-MARK-MASQ", "-j MARK"),
      nat("KUBE-POSTROUTING", "-j MASQUERADE"),
    ],
    balance: (at) => [server(at)],
    endpoint: (at, e) => [real(at, e)],
    affinity: (at) => [server(at)],
    hairpin: (at, e) => [
      inSet("LOOP-BACK", `${ipPort(e.ip, at.port.protocol, e.port)},${e.ip}`),
      nat("KUBE-POSTROUTING", "-j MASQUERADE"),
    ],
    refuse: (at) => [server(at)],
  };
}

// --- internal ---

function nat(chain: string, ...words: string[]): KernelObject {
  return { tool: "iptables", table: "nat", chain, words };
}

function filter(chain: string, ...words: string[]): KernelObject {
  return { tool: "iptables", table: "filter", chain, words };
}

function portOf({ kind, port }: Knocked): number {
  return kind === "node port" ? port.nodePort : port.port;
}

function nodePortEntry(at: Knocked): string {
  return at.port.protocol === "sctp" ? ipPort(at.ip, "sctp", at.port.nodePort) : String(at.port.nodePort);
}

function setsOf({ kind, port }: Knocked): readonly SetKey[] {
  switch (kind) {
    case "cluster IP":
      return ["CLUSTER-IP"];
    case "external IP":
      return ["EXTERNAL-IP"];
    case "load-balancer IP":
      return ["LOAD-BALANCER"];
    case "node port":
      return [
        port.protocol === "sctp" ? "NODE-PORT-SCTP-HASH" : port.protocol === "tcp" ? "NODE-PORT-TCP" : "NODE-PORT-UDP",
      ];
  }
}
