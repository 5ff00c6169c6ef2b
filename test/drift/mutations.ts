/** What others may do to our rules: one command each, and the kinds under which the metric may count it. */
import type { Mutation, Variant } from "./scene.ts";

const KUBE_SVC = "KUBE-SVC-VO6GEZA45BCWQPJM";

export function mutations(variant: Variant): readonly Mutation[] {
  if (variant === "nftables") return nftables;
  return iptables(variant === "iptables-nft" ? "iptables-nft" : "iptables-legacy");
}

/** Names carry no hash here: the table is asked for the chain of a Service. */
const ofService = (prefix: string): string =>
  `nft list chains ip | sed -n 's/^\\tchain \\(${prefix}[^ ]*\\).*/\\1/p' | head -1`;

const nftables: readonly Mutation[] = [
  { name: "table deleted", command: "nft delete table ip kube-proxy", kind: /table/ },
  { name: "IPv6 table deleted", command: "nft delete table ip6 kube-proxy", kind: /table/ },
  { name: "table flushed of rules", command: "nft flush table ip kube-proxy", kind: /rule|table/ },
  { name: "whole ruleset flushed", command: "nft flush ruleset", kind: /table/ },
  { name: "jump lost", command: "nft flush chain ip kube-proxy nat-prerouting", kind: /rule|jump/ },
  {
    name: "base chain lost",
    command: "nft 'flush chain ip kube-proxy nat-output; delete chain ip kube-proxy nat-output'",
    kind: /chain|rule/,
  },
  {
    name: "rules of a Service lost",
    command: `nft flush chain ip kube-proxy $(${ofService("service-")})`,
    kind: /rule/,
  },
  {
    name: "rule added",
    command: `nft insert rule ip kube-proxy $(${ofService("service-")}) drop`,
    kind: /rule/,
  },
  {
    name: "set element lost",
    command: "nft delete element ip kube-proxy cluster-ips '{ 10.96.0.11 }'",
    kind: /element/,
  },
  {
    name: "set element added",
    command: "nft add element ip kube-proxy cluster-ips '{ 10.96.99.99 }'",
    kind: /element/,
  },
  {
    name: "map element lost",
    command: "nft delete element ip kube-proxy service-ips '{ 10.96.0.10 . tcp . 80 }'",
    kind: /element/,
  },
  {
    name: "map element pointing elsewhere",
    command: `nft "delete element ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 }; add element ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 : goto reject-chain }"`,
    kind: /element/,
  },
  { name: "map emptied", command: "nft flush map ip kube-proxy service-nodeports", kind: /element/ },
];

function iptables(tool: string): readonly Mutation[] {
  return [
    { name: "nat table flushed", command: `${tool} -t nat -F`, kind: /table|rule|chain|jump/ },
    { name: "nat table flushed, chains deleted", command: `${tool} -t nat -F; ${tool} -t nat -X`, kind: /table|chain/ },
    { name: "filter table flushed", command: `${tool} -F`, kind: /table|rule|chain|jump/ },
    {
      name: "everything flushed (IPv6)",
      command: `ip6${tool.slice(2)} -t nat -F; ip6${tool.slice(2)} -t nat -X`,
      kind: /./,
    },
    {
      name: "PREROUTING jump lost",
      command: `${tool} -t nat -D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES`,
      kind: /jump/,
    },
    { name: "POSTROUTING flushed", command: `${tool} -t nat -F POSTROUTING`, kind: /jump/ },
    { name: "one rule of a Service lost", command: `${tool} -t nat -D ${KUBE_SVC} 1`, kind: /rule/ },
    { name: "one rule too many", command: `${tool} -t nat -I ${KUBE_SVC} -p udp -j RETURN`, kind: /rule/ },
    { name: "dispatch rule lost", command: `${tool} -t nat -D KUBE-SERVICES 1`, kind: /rule/ },
    { name: "node port rule lost", command: `${tool} -t nat -D KUBE-NODEPORTS 2`, kind: /rule/ },
    {
      name: "chain of an endpoint lost",
      command: `c=KUBE-SEP-FAD7RKL5P5R6KAF3; ${tool} -t nat -D ${KUBE_SVC} 2; ${tool} -t nat -F $c; ${tool} -t nat -X $c`,
      kind: /chain|rule/,
    },
    {
      name: "canary lost",
      command: `${tool} -t mangle -F; ${tool} -t mangle -X KUBE-PROXY-CANARY`,
      kind: /chain|table/,
    },
  ];
}
