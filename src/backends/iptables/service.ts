/** One Service as rules: its own chains in the nat table, and what it adds to the dispatch chains. */
import type { Context, LocalDetector } from "../../model/context.ts";
import { joinHostPort } from "../../model/ip.ts";
import type { Endpoint, PortPlan, ServicePlan } from "../../model/plan.ts";
import { probability, type Words } from "../../tools/iptables.ts";
import { refusal, refuseExternal, renderExternal } from "./external.ts";
import { jump } from "./fixed.ts";
import { dispatch, endpointChain, type PortChains, portChains } from "./names.ts";
import { device, host, proto, type RenderedService, ServiceText } from "./service-text.ts";

/** `comments` false: the short form for large clusters. */
export function renderService(plan: ServicePlan, context: Context, comments: boolean): RenderedService {
  const out = new ServiceText(context, comments);
  for (const port of plan.ports) {
    renderPort(out, port);
    if (plan.healthCheck === undefined) continue;
    // One a port as kube-proxy does, though all are for the same listener.
    const note = out.note(`${port.name} health check node port`);
    out.send(dispatch.healthChecks, [...proto("tcp", plan.healthCheck.port, note), jump("ACCEPT")]);
  }
  return out.finish(plan);
}

// --- internal ---

function renderPort(out: ServiceText, port: PortPlan): void {
  const names = portChains(port);
  const endpoints = new Map(port.endpoints.map((e) => [joinHostPort(e.ip, e.port), endpointChain(port, e)]));
  for (const endpoint of port.endpoints) renderEndpoint(out, port, endpoint);
  if (port.usesCluster) renderBalancer(out, port, names.cluster, port.clusterEndpoints, port.internalLocal, endpoints);
  if (port.usesLocal) renderBalancer(out, port, names.local, port.localEndpoints, !port.internalLocal, endpoints);
  renderClusterIP(out, port, names);
  if (!port.exposed) return;
  if (port.endpoints.length > 0) renderExternal(out, port, names);
  if (port.external === "drop" || port.external === "reject") refuseExternal(out, port);
}

/** KUBE-SEP: masquerade hairpin traffic, then send to the endpoint. */
function renderEndpoint(out: ServiceText, port: PortPlan, endpoint: Endpoint): void {
  const name = endpointChain(port, endpoint);
  const note = out.note(port.name);
  const sticky = port.affinitySeconds > 0 ? [recent(out, name, ["--set"])] : [];
  const to: Words = ["-j", "DNAT", "--to-destination", joinHostPort(endpoint.ip, endpoint.port)];
  out.chain(name, [
    [["-s", host(out, endpoint.ip)], ...note, jump("KUBE-MARK-MASQ")],
    [["-p", port.protocol], ...note, ...sticky, ["-m", port.protocol], to],
  ]);
}

function recent(out: ServiceText, name: string, verb: Words): Words {
  const mask = out.context.family.bits === 32 ? "255.255.255.255" : "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
  return ["-m", "recent", ...verb, "--name", name, "--mask", mask, "--rsource"];
}

/** KUBE-SVC and KUBE-SVL: `foreign` says that cluster IP traffic does not come this way, so nothing of it is to be masqueraded. */
function renderBalancer(
  out: ServiceText,
  port: PortPlan,
  name: string,
  endpoints: readonly Endpoint[],
  foreign: boolean,
  chains: ReadonlyMap<string, string>,
): void {
  if (endpoints.length === 0) return;
  const rules: (readonly Words[])[] = foreign ? [] : masqueradeRules(out, port);
  const seconds = String(port.affinitySeconds);
  const targets = endpoints.map((endpoint) => {
    const address = joinHostPort(endpoint.ip, endpoint.port);
    return {
      note: out.note(`${port.name} -> ${address}`),
      chain: chains.get(address) ?? endpointChain(port, endpoint),
    };
  });
  if (port.affinitySeconds > 0) {
    for (const { note, chain } of targets) {
      rules.push([...note, recent(out, chain, ["--rcheck", "--seconds", seconds, "--reap"]), jump(chain)]);
    }
  }
  targets.forEach(({ note, chain }, i) => {
    const left = targets.length - i;
    const chance: Words[] =
      left > 1 ? [["-m", "statistic", "--mode", "random", "--probability", probability(left)]] : [];
    rules.push([...note, ...chance, jump(chain)]);
  });
  out.chain(name, rules);
}

/** What of the traffic to the cluster IP needs the node's address as its source. */
function masqueradeRules(out: ServiceText, port: PortPlan): (readonly Words[])[] {
  const { masqueradeAll, detectLocal } = out.context;
  const notLocal = masqueradeAll ? { source: [], device: [] } : remote(detectLocal);
  if (notLocal === undefined) return [];
  const service = proto(port.protocol, port.port, out.note(`${port.name} cluster IP`));
  const to: Words = ["-d", host(out, port.clusterIP)];
  return [[...notLocal.source, to, ...notLocal.device, ...service, jump("KUBE-MARK-MASQ")]];
}

interface Origin {
  readonly source: readonly Words[];
  readonly device: readonly Words[];
}

/** Traffic that is not from a pod of this node or cluster; undefined: cannot tell. */
function remote(detector: LocalDetector): Origin | undefined {
  switch (detector.kind) {
    case "none":
      return undefined;
    case "cidr":
      return { source: [["!", "-s", detector.cidr]], device: [] };
    default:
      return { source: [], device: [["!", "-i", device(detector)]] };
  }
}

function renderClusterIP(out: ServiceText, port: PortPlan, names: PortChains): void {
  const to: Words = ["-d", host(out, port.clusterIP)];
  if (port.internal === "drop" || port.internal === "reject") {
    out.send(dispatch.noEndpoints, [to, ...refusal(out, port, port.internal, [], port.port)]);
    return;
  }
  const service = proto(port.protocol, port.port, out.note(`${port.name} cluster IP`));
  out.send(dispatch.services, [to, ...service, jump(port.internal === "local" ? names.local : names.cluster)]);
}
