/** Traffic from outside to one Service port: node port, external and load-balancer addresses. */
import { cidrContains } from "../../model/ip.ts";
import type { PortPlan } from "../../model/plan.ts";
import type { Words } from "../../tools/iptables.ts";
import { counter, counters, jump, servesLocalhost } from "./fixed.ts";
import { dispatch, type PortChains } from "./names.ts";
import { device, host, proto, type ServiceText } from "./service-text.ts";

/** `has no endpoints` and `has no local endpoints`. */
export function refusal(
  out: ServiceText,
  port: PortPlan,
  fate: "drop" | "reject",
  extra: readonly Words[],
  number: number,
): readonly Words[] {
  const note = out.note(`${port.name} has no ${fate === "drop" ? "local " : ""}endpoints`);
  const verdict: Words =
    fate === "drop" ? ["-j", "DROP"] : ["-j", "REJECT", "--reject-with", out.context.family.rejectWith];
  return [["-p", port.protocol], ...note, ...extra, ["-m", port.protocol, "--dport", String(number)], verdict];
}

/**
 * External traffic to a port without endpoints is refused (dropped where only this node has none) in INPUT and FORWARD too: in
 * OUTPUT alone, clients outside would wait (kubernetes#43969).
 */
export function refuseExternal(out: ServiceText, port: PortPlan): void {
  const fate = port.external === "drop" ? "drop" : "reject";
  for (const ip of [...port.externalIPs, ...port.loadBalancerIPs]) {
    out.send(dispatch.externalNoEndpoints, [["-d", host(out, ip)], ...refusal(out, port, fate, [], port.port)]);
  }
  if (port.nodePort === 0) return;
  const local: Words = ["-m", "addrtype", "--dst-type", "LOCAL"];
  out.send(dispatch.externalNoEndpoints, refusal(out, port, fate, [local], port.nodePort));
}

/** Everything of an exposed port that has endpoints: KUBE-EXT, KUBE-FW where there are source ranges, and what leads there. */
export function renderExternal(out: ServiceText, port: PortPlan, names: PortChains): void {
  out.chain(names.external, externalRules(out, port, names));
  for (const ip of port.externalIPs) {
    const service = proto(port.protocol, port.port, out.note(`${port.name} external IP`));
    out.send(dispatch.services, [["-d", host(out, ip)], ...service, jump(names.external)]);
  }
  if (port.loadBalancerIPs.length > 0) renderLoadBalancer(out, port, names);
  if (port.nodePort === 0) return;
  const service = proto(port.protocol, port.nodePort, out.note(port.name));
  if (servesLocalhost(out.context) && out.context.facts.nfacct) {
    const loopback: Words = ["-d", out.context.family.loopback];
    out.send(dispatch.nodePorts, [loopback, ...service, counter(counters.localhost), jump(names.external)]);
  }
  out.send(dispatch.nodePorts, [...service, jump(names.external)]);
}

/** KUBE-EXT: outside traffic is masqueraded and may go anywhere, or stays on this node with its own source address. */
function externalRules(out: ServiceText, port: PortPlan, names: PortChains): (readonly Words[])[] {
  const about = `${port.name} external destinations`;
  if (!port.externalLocal) {
    return [[...out.note(`masquerade traffic for ${about}`), jump("KUBE-MARK-MASQ")], [jump(names.cluster)]];
  }
  const rules: (readonly Words[])[] = [];
  const { detectLocal } = out.context;
  const cluster = port.clusterEndpoints.length > 0;
  if (cluster && detectLocal.kind !== "none") {
    const from: Words = detectLocal.kind === "cidr" ? ["-s", detectLocal.cidr] : ["-i", device(detectLocal)];
    rules.push([from, ...out.note(`pod traffic for ${about}`), jump(names.cluster)]);
  }
  const local: Words = ["-m", "addrtype", "--src-type", "LOCAL"];
  rules.push([...out.note(`masquerade LOCAL traffic for ${about}`), local, jump("KUBE-MARK-MASQ")]);
  if (cluster) rules.push([...out.note(`route LOCAL traffic for ${about}`), local, jump(names.cluster)]);
  if (port.localEndpoints.length > 0) rules.push([jump(names.local)]);
  return rules;
}

/** Load-balancer addresses, behind KUBE-FW where source ranges are set. */
function renderLoadBalancer(out: ServiceText, port: PortPlan, names: PortChains): void {
  const guarded = port.sourceRanges.length > 0;
  if (guarded) out.chain(names.firewall, firewallRules(out, port, names));
  for (const ip of port.loadBalancerIPs) {
    const to: Words = ["-d", host(out, ip)];
    const service = proto(port.protocol, port.port, out.note(`${port.name} loadbalancer IP`));
    out.send(dispatch.services, [to, ...service, jump(guarded ? names.firewall : names.external)]);
    if (!guarded) continue;
    // Not DNATed because no range matched; in the nat table nothing can be dropped.
    const note = out.note(`${port.name} traffic not accepted by ${names.firewall}`);
    out.send(dispatch.firewall, [to, ...proto(port.protocol, port.port, note), jump("DROP")]);
  }
}

/** KUBE-FW: who may come goes on; what is left over is dropped in the filter table, by KUBE-PROXY-FIREWALL. */
function firewallRules(out: ServiceText, port: PortPlan, names: PortChains): (readonly Words[])[] {
  const allow = (from: string): readonly Words[] => {
    return [["-s", from], ...out.note(`${port.name} loadbalancer IP`), jump(names.external)];
  };
  const rules = port.sourceRanges.map(allow);
  const { nodeIP } = out.context;
  if (port.sourceRanges.some((range) => cidrContains(range, nodeIP))) {
    // This node may come: some hosts send to a load-balancer address of theirs with that address as the source.
    rules.push(...port.loadBalancerIPs.map((ip) => allow(host(out, ip))));
  }
  // Does nothing but tell the reader where the rest goes.
  if (out.comments) rules.push(out.note(`other traffic to ${port.name} will be dropped by KUBE-PROXY-FIREWALL`));
  return rules;
}
