/** Where node ports answer: `nodePortAddresses` of the configuration, resolved for one family on this machine. */
import type { NodePortAddresses, ProxyMode } from "./context.ts";
import type { Family } from "./family.ts";
import { cidrContains, compareIPs, familyOf, isLoopback, parseCIDR } from "./ip.ts";

export interface NodePortInputs {
  /** `primary`, `localhost`, `all` and CIDRs, in any mix; empty: the mode's default (nftables `primary`, others all). */
  readonly policy: readonly string[];
  /** The node's own addresses, canonical, of either family. */
  readonly nodeIPs: readonly string[];
  /** Addresses of this machine's interfaces, canonical, of either family, the proxy's own dummy device left out. */
  readonly localAddresses: readonly string[];
  readonly family: Family;
  readonly mode: ProxyMode;
}

/**
 * Keywords count for both families; a CIDR for its own. A list that says nothing about this family (only CIDRs of
 * the other) leaves it open, as kube-proxy does in every mode. `primary` means the node IP where an interface has it.
 */
export function resolveNodePorts(inputs: NodePortInputs): NodePortAddresses {
  const { family, nodeIPs } = inputs;
  const cidrs = cidrsOf(inputs);
  const own = inputs.localAddresses.filter((ip) => familyOf(ip) === family.name);
  if (cidrs.includes(family.any)) return { any: true, addresses: sorted(own.filter(isReachable)), loopback: true };
  const hosts = nodeIPs.map((ip) => `${ip}/${family.bits}`);
  const wanted = [...cidrs.filter((cidr) => cidr !== primary), ...(cidrs.includes(primary) ? hosts : [])];
  return {
    any: false,
    addresses: sorted(own.filter((ip) => !isLoopback(ip) && wanted.some((cidr) => cidrContains(cidr, ip)))),
    loopback: wanted.some((cidr) => coversLoopback(cidr, family)),
  };
}

// --- internal ---

const primary = "primary";

/** CIDRs of this family, with the word `primary` left as it is. */
function cidrsOf({ policy, family, mode }: NodePortInputs): readonly string[] {
  if (policy.length === 0) return mode === "nftables" ? [primary] : [family.any];
  const cidrs = policy.flatMap((entry): readonly string[] => {
    switch (entry) {
      case primary:
        return [primary];
      case "localhost":
        return [family.loopback];
      case "all":
        return [family.any];
      default: {
        const cidr = parseCIDR(entry);
        return cidr !== undefined && familyOf(cidr) === family.name ? [cidr] : [];
      }
    }
  });
  return cidrs.length === 0 ? [family.any] : cidrs;
}

/** Node ports on link-local addresses would need a zone that no client of a Service has. */
function isReachable(ip: string): boolean {
  return !isLoopback(ip) && !cidrContains("fe80::/10", ip);
}

/** Some loopback address is in the CIDR, or the CIDR is part of the loopback range. */
function coversLoopback(cidr: string, family: Family): boolean {
  const network = cidr.slice(0, cidr.indexOf("/"));
  return cidrContains(family.loopback, network) || cidrContains(cidr, family.loopback.replace(/\/.*/, ""));
}

function sorted(ips: readonly string[]): readonly string[] {
  return [...new Set(ips)].sort(compareIPs);
}
