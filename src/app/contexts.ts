/** From configuration, Node, host facts and local addresses to one Context a family, with everything odd about them. */
import { type Config, clusterCIDRs, masquerade } from "../config/config.ts";
import { gateOn } from "../config/feature-gates.ts";
import type { Context, HostFacts, LocalDetector } from "../model/context.ts";
import { type Family, type FamilyName, families } from "../model/family.ts";
import { familyOf, isUnspecified, parseIP } from "../model/ip.ts";
import type { NodeInfo } from "../model/node.ts";
import { resolveNodePorts } from "../model/node-ports.ts";

export interface NodeIdentity {
  readonly primary: FamilyName;
  /** Loopback where the Node has no address of the family. */
  readonly ips: Readonly<Record<FamilyName, string>>;
  /** The addresses that are the node's own, primary family first; without the loopback stand-ins. */
  readonly real: readonly string[];
}

/** Node IPs and primary family: a specific bindAddress wins, then the Node's addresses, else loopback (kubernetes#83791). */
export function nodeIdentity(node: NodeInfo | undefined, bindAddress: string): NodeIdentity {
  const bind = parseIP(bindAddress);
  const given = node?.addresses ?? [];
  const first = (family: FamilyName): string | undefined => given.find((ip) => familyOf(ip) === family);
  const real: Partial<Record<FamilyName, string>> = {};
  for (const family of ["IPv4", "IPv6"] as const) {
    const ip = first(family);
    if (ip !== undefined) real[family] = ip;
  }
  let primary: FamilyName = given[0] === undefined ? familyOf(bind ?? "0.0.0.0") : familyOf(given[0]);
  if (bind !== undefined && !isUnspecified(bind)) {
    primary = familyOf(bind);
    real[primary] = bind;
  }
  const ips = { IPv4: real.IPv4 ?? "127.0.0.1", IPv6: real.IPv6 ?? "::1" };
  const order: readonly FamilyName[] = primary === "IPv4" ? ["IPv4", "IPv6"] : ["IPv6", "IPv4"];
  return { primary, ips, real: order.flatMap((f) => real[f] ?? []) };
}

export interface ContextInputs {
  readonly config: Config;
  readonly nodeName: string;
  readonly node: NodeInfo | undefined;
  readonly identity: NodeIdentity;
  /** Families that kernel and tools support. */
  readonly supported: readonly FamilyName[];
  readonly facts: HostFacts;
  readonly localAddresses: readonly string[];
  readonly gates: ReadonlySet<string>;
}

export interface Contexts {
  /** Primary family first. */
  readonly list: readonly Context[];
  /** One line each: things that will not work as the user may expect. */
  readonly warnings: readonly string[];
  /** One line each: nothing can work. */
  readonly faults: readonly string[];
}

/** One Context a supported family. Family mismatches warn; they are faults only where no family is left. */
export function makeContexts(inputs: ContextInputs): Contexts {
  const { identity, supported, config } = inputs;
  const order: readonly FamilyName[] = identity.primary === "IPv4" ? ["IPv4", "IPv6"] : ["IPv6", "IPv4"];
  const usable = order.filter((f) => supported.includes(f));
  if (!supported.includes(identity.primary)) {
    const fault = `this host cannot do ${identity.primary}, the family of the node's primary address: its ${identity.primary} tables are missing`;
    return { list: [], warnings: [], faults: [fault] };
  }
  const warnings = [...detectorWarnings(inputs, usable), ...nodePortWarnings(config)];
  return { list: usable.map((f) => makeContext(inputs, families[f])), warnings, faults: [] };
}

/** The feature gates that change rules, of those that are on. */
export function ruleGates(config: Config): ReadonlySet<string> {
  const names = ["KubeProxyNFTablesLocalhostNodePorts", "KubeProxyNFTablesCompact"] as const;
  return new Set(names.filter((name) => gateOn(config, name)));
}

// --- internal ---

function makeContext(inputs: ContextInputs, family: Family): Context {
  const { config, nodeName, node, identity, facts, localAddresses, gates } = inputs;
  const { all, mark } = masquerade(config);
  const nodePorts = resolveNodePorts({
    policy: config.nodePortAddresses,
    nodeIPs: identity.real,
    localAddresses,
    family,
    mode: config.mode,
  });
  const seconds = (ms: number): number => Math.floor(ms / 1000);
  return {
    mode: config.mode,
    family,
    nodeName,
    nodeIP: identity.ips[family.name],
    zone: node?.zone ?? "",
    detectLocal: detector(inputs, family.name),
    nodePorts,
    masqueradeAll: all,
    masqueradeMark: mark,
    localhostNodePorts:
      config.mode === "nftables"
        ? gates.has("KubeProxyNFTablesLocalhostNodePorts") && nodePorts.loopback
        : config.iptables.localhostNodePorts && nodePorts.loopback && family.name === "IPv4",
    ipvs: {
      scheduler: config.ipvs.scheduler === "" ? "rr" : config.ipvs.scheduler,
      strictARP: config.ipvs.strictARP,
      excludeCIDRs: config.ipvs.excludeCIDRs,
      tcpTimeout: seconds(config.ipvs.tcpTimeout),
      tcpFinTimeout: seconds(config.ipvs.tcpFinTimeout),
      udpTimeout: seconds(config.ipvs.udpTimeout),
    },
    facts,
    gates: { nftablesCompact: gates.has("KubeProxyNFTablesCompact") },
  };
}

function detector({ config, node }: ContextInputs, family: FamilyName): LocalDetector {
  const cidr = (list: readonly string[]): LocalDetector => {
    const own = list.find((c) => familyOf(c) === family);
    return own === undefined ? { kind: "none" } : { kind: "cidr", cidr: own };
  };
  switch (config.detectLocalMode) {
    case "ClusterCIDR":
      return cidr(clusterCIDRs(config));
    case "NodeCIDR":
      return cidr(node?.podCIDRs ?? []);
    case "BridgeInterface":
      return { kind: "bridge", name: config.detectLocal.bridgeInterface };
    case "InterfaceNamePrefix":
      return { kind: "prefix", prefix: config.detectLocal.interfaceNamePrefix };
  }
}

function detectorWarnings(inputs: ContextInputs, usable: readonly FamilyName[]): readonly string[] {
  const { config } = inputs;
  const field = { ClusterCIDR: "clusterCIDR", NodeCIDR: "the Node's spec.podCIDRs" } as Readonly<
    Record<string, string>
  >;
  const source = field[config.detectLocalMode];
  if (source === undefined) return [];
  return usable
    .filter((f) => detector(inputs, f).kind === "none")
    .map(
      (f) =>
        `${source} has no ${f} range: ${f} traffic of pods cannot be told from outside traffic, so pods do not bypass a Local external policy and masqueradeAll is not narrowed`,
    );
}

function nodePortWarnings({ mode, nodePortAddresses }: Config): readonly string[] {
  if (mode === "nftables" || nodePortAddresses.length > 0) return [];
  return [
    "nodePortAddresses is unset: node ports answer on all local addresses; `--nodeport-addresses primary` limits them to the node's own",
  ];
}
