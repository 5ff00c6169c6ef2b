/** Chains, maps and sets of nftables mode behind the steps of an explanation. */
import { endpointName, portName } from "../backends/nftables/names.ts";
import type { Context } from "../model/context.ts";
import type { Knocked } from "./frontend.ts";
import type { Naming } from "./naming.ts";
import { compactNaming } from "./naming-nftables-compact.ts";
import type { KernelObject } from "./verdict.ts";

export function nftablesNaming(context: Context): Naming {
  return context.gates.nftablesCompact ? compactNaming(context, standard) : standard;
}

// --- internal ---

const standard: Naming = {
  match: (at) => [served(at)],
  ranges: (at) => [map("firewall-ips", addressKey(at)), chain(`firewall-${nameOf(at)}`)],
  external: (at) => [chain(`external-${nameOf(at)}`)],
  masquerade: (at) => [
    ...(at.kind === "cluster IP" ? [set("cluster-ips", at.ip), chain("services")] : [chain(`external-${nameOf(at)}`)]),
    chain("masquerading"),
  ],
  balance: (at, local) => [chain(`${local ? "local" : "service"}-${nameOf(at)}`)],
  endpoint: (at, e) => (at.port.affinitySeconds > 0 ? [chain(`endpoint-${endpointName(at.service, at.port, e)}`)] : []),
  // The clients remembered are the kernel's to fill: the set is named by the chain that fills it.
  affinity: (at, e) => [chain(`endpoint-${endpointName(at.service, at.port, e)}`)],
  hairpin: (at, e) => [
    set("hairpin-connections", `${e.ip} . ${e.ip} . ${at.port.protocol} . ${e.port}`),
    chain("masquerading"),
  ],
  refuse: (at) => [
    at.kind === "node port"
      ? map("no-endpoint-nodeports", nodePortKey(at))
      : map("no-endpoint-services", addressKey(at)),
  ],
};

const chain = (name: string): KernelObject => ({ tool: "nft", kind: "chain", name });
const map = (name: string, key: string): KernelObject => ({ tool: "nft", kind: "map", name, key });
const set = (name: string, key: string): KernelObject => ({ tool: "nft", kind: "set", name, key });

function served(at: Knocked): KernelObject {
  return at.kind === "node port" ? map("service-nodeports", nodePortKey(at)) : map("service-ips", addressKey(at));
}

function nameOf({ service, port }: Knocked): string {
  return portName(service, port);
}

function addressKey({ ip, port }: Knocked): string {
  return `${ip} . ${port.protocol} . ${port.port}`;
}

function nodePortKey({ port }: Knocked): string {
  return `${port.protocol} . ${port.nodePort}`;
}
