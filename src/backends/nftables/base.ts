/** The fixed objects of our table: base chains, dispatch, masquerading, and the sets and maps that Services fill. */
import type { Context } from "../../model/context.ts";
import { cut, type NftChain, type NftElement, type NftHook, type NftSet } from "../../tools/nft.ts";
import * as rule from "../../tools/nft-rule.ts";
import { LOCALHOST_PORTS, localhostChain } from "./localhost.ts";
import type { Objects } from "./state.ts";

const FILTER = 0;
const DSTNAT = -100;
const SRCNAT = 100;
/** Before any DNAT: what is subject to loadBalancerSourceRanges still has its first destination. */
const BEFORE_DNAT = DSTNAT - 10;

const maps = {
  "firewall-ips": "destinations that are subject to LoadBalancerSourceRanges",
  "no-endpoint-services": "vmap to drop or reject packets to services with no endpoints",
  "service-ips": "ClusterIP, ExternalIP and LoadBalancer IP traffic",
} as const;

const portMaps = {
  "no-endpoint-nodeports": "vmap to drop or reject packets to service nodeports with no endpoints",
  "service-nodeports": "NodePort traffic",
} as const;

/** The fixed objects. `serviceCIDRs`: this family's, canonical. */
export function baseObjects(context: Context, serviceCIDRs: readonly string[]): Objects {
  return {
    chains: [...hookChains(), ...natChains(context), ...filterChains(context, serviceCIDRs)],
    sets: baseSets(context),
    elements: nodePortElements(context),
  };
}

function hookChains(): readonly NftChain[] {
  const endpoints = { expression: rule.jumpIfNew("service-endpoints-check") };
  const clusterIPs = { expression: rule.jumpIfNew("cluster-ips-check") };
  const nodePorts = { expression: rule.jumpIfNew("nodeport-endpoints-check") };
  const firewall = { expression: rule.jumpIfNew("firewall-check") };
  const services = { expression: "jump services" };
  const chain = (
    name: string,
    type: NftHook["type"],
    hook: NftHook["hook"],
    priority: number,
    rules: NftChain["rules"],
  ) => ({
    name,
    hook: { type, hook, priority },
    rules,
  });
  return [
    chain("filter-prerouting-pre-dnat", "filter", "prerouting", BEFORE_DNAT, [firewall]),
    chain("filter-output-pre-dnat", "filter", "output", BEFORE_DNAT, [firewall]),
    chain("filter-input", "filter", "input", FILTER, [nodePorts, endpoints]),
    chain("filter-forward", "filter", "forward", FILTER, [endpoints, clusterIPs]),
    chain("filter-output", "filter", "output", FILTER, [endpoints, clusterIPs]),
    chain("nat-prerouting", "nat", "prerouting", DSTNAT, [services]),
    chain("nat-output", "nat", "output", DSTNAT, [services]),
    chain("nat-postrouting", "nat", "postrouting", SRCNAT, [{ expression: "jump masquerading" }]),
  ];
}

function natChains(context: Context): readonly NftChain[] {
  const { family, masqueradeMark: mark } = context;
  const random = context.facts.randomFully;
  const nodePorts = rule.nodePortAddress(family, context.nodePorts.any ? undefined : "nodeport-ips", true);
  const masquerade = clusterMasquerade(context);
  return [
    {
      name: "services",
      rules: [
        ...(masquerade === undefined ? [] : [masquerade]),
        { expression: rule.lookUpFrontend(family, "service-ips") },
        { expression: rule.lookUpNodePort(nodePorts, "service-nodeports") },
      ],
    },
    {
      name: "masquerading",
      rules: [
        { expression: rule.masqueradeMarked(mark, random) },
        { expression: rule.masqueradeHairpin(family, "hairpin-connections", random) },
      ],
    },
  ];
}

/** Traffic to cluster IPs whose replies might miss this node. */
function clusterMasquerade(context: Context): { expression: string; comment: string } | undefined {
  const { family, masqueradeMark } = context;
  const toClusterIP = `${family.nft} daddr @cluster-ips`;
  const mark = rule.setMark(masqueradeMark);
  if (context.masqueradeAll)
    return { expression: `${toClusterIP} ${mark}`, comment: "masquerade all clusterIP traffic" };
  const outside = rule.fromPods(family, context.detectLocal, true);
  if (outside === undefined) return undefined;
  return {
    expression: `${toClusterIP} ${outside} ${mark}`,
    comment: "masquerade clusterIP traffic from outside cluster",
  };
}

function filterChains(context: Context, serviceCIDRs: readonly string[]): readonly NftChain[] {
  const { family } = context;
  const nodePorts = rule.nodePortAddress(family, context.nodePorts.any ? undefined : "nodeport-ips", false);
  const onNodePorts = [{ expression: rule.lookUpNodePort(nodePorts, "no-endpoint-nodeports") }];
  if (context.localhostNodePorts) {
    const loopback = `${family.nft} daddr ${rule.anyOf(family, [family.loopback])}`;
    onNodePorts.push({ expression: rule.lookUpNodePort(loopback, LOCALHOST_PORTS) });
  }
  const onClusterIPs = [
    { expression: `${family.nft} daddr @cluster-ips reject`, comment: "Reject traffic to invalid ports of ClusterIPs" },
  ];
  if (serviceCIDRs.length > 0)
    onClusterIPs.push({
      expression: `${family.nft} daddr ${rule.anyOf(family, serviceCIDRs)} drop`,
      comment: "Drop traffic to unallocated ClusterIPs",
    });
  return [
    {
      name: "reject-chain",
      comment: "helper for @no-endpoint-services / @no-endpoint-nodeports",
      rules: [{ expression: "reject" }],
    },
    { name: "firewall-check", rules: [{ expression: rule.lookUpFrontend(family, "firewall-ips") }] },
    { name: "service-endpoints-check", rules: [{ expression: rule.lookUpFrontend(family, "no-endpoint-services") }] },
    { name: "nodeport-endpoints-check", rules: onNodePorts },
    { name: "cluster-ips-check", rules: onClusterIPs },
    ...(context.localhostNodePorts ? [localhostChain] : []),
  ];
}

function baseSets(context: Context): readonly NftSet[] {
  const address = context.family.nftType;
  const frontend = `${address} . inet_proto . inet_service`;
  const sets: NftSet[] = [
    { kind: "set", name: "cluster-ips", type: address, comment: "Active ClusterIPs" },
    {
      kind: "set",
      name: "hairpin-connections",
      type: `${address} . ${frontend}`,
      comment: "service hairpin connections",
    },
  ];
  for (const [name, comment] of Object.entries(maps)) sets.push({ kind: "map", name, type: frontend, comment });
  for (const [name, comment] of Object.entries(portMaps))
    sets.push({ kind: "map", name, type: "inet_proto . inet_service", comment });
  if (!context.nodePorts.any)
    sets.push({ kind: "set", name: "nodeport-ips", type: address, comment: "IPs that accept NodePort traffic" });
  if (context.localhostNodePorts)
    sets.push({
      kind: "map",
      name: LOCALHOST_PORTS,
      type: "inet_proto . inet_service",
      comment: cut("vmap to reject packets to node ports that localhost does not serve"),
    });
  return sets;
}

function nodePortElements(context: Context): readonly NftElement[] {
  const { any, addresses } = context.nodePorts;
  return any ? [] : addresses.map((key) => ({ set: "nodeport-ips", key }));
}
