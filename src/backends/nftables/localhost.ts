/** Node ports on localhost (feature gate): what the listener serves for TCP, and what rules reject for UDP and SCTP. */
import type { Context } from "../../model/context.ts";
import type { Endpoint, Plan, PortPlan } from "../../model/plan.ts";
import { type NftChain, TABLE } from "../../tools/nft.ts";
import { goTo } from "../../tools/nft-rule.ts";
import type { Reading } from "../backend.ts";

/** Map of protocol and node port of UDP and SCTP Services. */
export const LOCALHOST_PORTS = "localhost-nodeports";

const REJECT = "localhost-reject";

/** The counters are read by their protocol; a rewrite of the chain resets them, which counters may. */
export const localhostChain: NftChain = {
  name: REJECT,
  rules: [{ expression: "meta l4proto udp counter reject" }, { expression: "meta l4proto sctp counter reject" }],
};

export const rejectLocalhost = goTo(REJECT);

/** Packets rejected since the chain was written, by protocol. The listing is slow with many Services: for scrapes only. */
export function rejectedPackets({ family }: Context): Reading<ReadonlyMap<"udp" | "sctp", number>> {
  const args = ["list", "chain", family.nft, TABLE, REJECT];
  return {
    steps: [{ kind: "exec", tool: "nft", args, mayFail: true, about: "packets rejected on localhost" }],
    parse: ([result]) => {
      const out = new Map<"udp" | "sctp", number>();
      for (const [, protocol, packets] of (result?.stdout ?? "").matchAll(
        /meta l4proto (udp|sctp) counter packets (\d+)/g,
      ))
        out.set(protocol === "udp" ? "udp" : "sctp", Number(packets));
      return out;
    },
  };
}

/** One TCP node port that localhost serves. */
export interface LocalhostPort {
  readonly nodePort: number;
  /** `namespace/name:port`, for messages. */
  readonly name: string;
  /** By externalTrafficPolicy; never empty. */
  readonly endpoints: readonly Endpoint[];
  readonly affinitySeconds: number;
}

/**
 * The TCP node ports to listen on, by number. A port without a usable endpoint is left out: with nobody listening the
 * kernel refuses at once, as it does elsewhere.
 */
export function localhostPorts(plan: Plan): ReadonlyMap<number, LocalhostPort> {
  const out = new Map<number, LocalhostPort>();
  for (const service of plan.services.values()) {
    for (const port of service.ports) {
      const endpoints = endpointsOf(port);
      if (port.protocol !== "tcp" || port.nodePort === 0 || endpoints.length === 0) continue;
      const { nodePort, name, affinitySeconds } = port;
      out.set(nodePort, { nodePort, name, endpoints, affinitySeconds });
    }
  }
  return out;
}

/** All clients of localhost are one client: an endpoint remembered for the port goes first, the others at random. */
export function orderOfTries(
  { endpoints, affinitySeconds }: LocalhostPort,
  remembered: { readonly endpoint: Endpoint /** Milliseconds. */; readonly at: number } | undefined,
  now: number,
  /** From 0 to below 1. */
  random: () => number,
): readonly Endpoint[] {
  const order = [...endpoints];
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    const [a, b] = [order[i], order[j]];
    if (a !== undefined && b !== undefined) [order[i], order[j]] = [b, a];
  }
  if (remembered === undefined || now - remembered.at >= affinitySeconds * 1_000) return order;
  const is = (endpoint: Endpoint): boolean =>
    endpoint.ip === remembered.endpoint.ip && endpoint.port === remembered.endpoint.port;
  return [...order.filter(is), ...order.filter((endpoint) => !is(endpoint))];
}

function endpointsOf({ external, clusterEndpoints, localEndpoints }: PortPlan): readonly Endpoint[] {
  if (external === "cluster") return clusterEndpoints;
  return external === "local" ? localEndpoints : [];
}
