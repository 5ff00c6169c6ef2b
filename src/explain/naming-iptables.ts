/** Chains and rules of iptables mode behind the steps of an explanation. */
import { endpointChain, portChains } from "../backends/iptables/names.ts";
import type { Context } from "../model/context.ts";
import { joinHostPort } from "../model/ip.ts";
import type { Endpoint, PortPlan } from "../model/plan.ts";
import type { Knocked } from "./frontend.ts";
import type { Naming } from "./naming.ts";
import type { KernelObject } from "./verdict.ts";

type Chains = ReturnType<typeof portChains>;

export function iptablesNaming(context: Context): Naming {
  const host = (ip: string): string => `-d ${ip}/${context.family.bits}`;
  const nat = (chain: string, ...words: string[]): KernelObject => rule("nat", chain, words);
  const filter = (chain: string, ...words: string[]): KernelObject => rule("filter", chain, words);
  const dport = (port: number): string => `--dport ${port}`;
  const endpointOf = (port: PortPlan, e: Endpoint, ...words: string[]) => nat(endpointChain(port, e), ...words);
  const list = (chains: Chains, local: boolean) => nat(local ? chains.local : chains.cluster);
  return {
    match: (at, guarded) => {
      const { port } = at;
      const chains = portChains(port);
      if (at.kind === "node port") return [nat("KUBE-NODEPORTS", dport(port.nodePort), `-j ${chains.external}`)];
      if (at.kind !== "cluster IP")
        return [
          nat("KUBE-SERVICES", host(at.ip), dport(port.port), `-j ${guarded ? chains.firewall : chains.external}`),
        ];
      const target = port.internal === "local" ? chains.local : chains.cluster;
      return [nat("KUBE-SERVICES", host(at.ip), dport(port.port), `-j ${target}`)];
    },
    ranges: (at, denied) => [
      nat(portChains(at.port).firewall),
      ...(denied ? [filter("KUBE-PROXY-FIREWALL", host(at.ip), dport(at.port.port), "-j DROP")] : []),
    ],
    external: (at) => [nat(portChains(at.port).external)],
    masquerade: (at) => [
      nat(masqueradeChain(at), "-j KUBE-MARK-MASQ"),
      nat("KUBE-MARK-MASQ", "-j MARK"),
      nat("KUBE-POSTROUTING", "-j MASQUERADE"),
    ],
    balance: (at, local) => [list(portChains(at.port), local)],
    endpoint: (at, e) => [endpointOf(at.port, e, `--to-destination ${joinHostPort(e.ip, e.port)}`)],
    affinity: (at, e) => [endpointOf(at.port, e, "-m recent --set")],
    hairpin: (at, e) => [endpointOf(at.port, e, "-j KUBE-MARK-MASQ"), nat("KUBE-POSTROUTING", "-j MASQUERADE")],
    refuse: (at) => {
      const verdict =
        (at.kind === "cluster IP" ? at.port.internal : at.port.external) === "drop" ? "-j DROP" : "-j REJECT";
      if (at.kind === "cluster IP") return [filter("KUBE-SERVICES", host(at.ip), dport(at.port.port), verdict)];
      if (at.kind === "node port") return [filter("KUBE-EXTERNAL-SERVICES", dport(at.port.nodePort), verdict)];
      return [filter("KUBE-EXTERNAL-SERVICES", host(at.ip), dport(at.port.port), verdict)];
    },
  };
}

// --- internal ---

function rule(table: "nat" | "filter", chain: string, words: readonly string[]): KernelObject {
  return { tool: "iptables", table, chain, ...(words.length === 0 ? {} : { words }) };
}

function masqueradeChain({ kind, port }: Knocked): string {
  const chains = portChains(port);
  if (kind !== "cluster IP") return chains.external;
  return port.internal === "local" ? chains.local : chains.cluster;
}
