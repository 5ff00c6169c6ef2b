/** A small cluster in records, for tests of conntrack: Services with UDP ports and their endpoints, as real plans. */
import type { Context, ProxyMode } from "../../src/model/context.ts";
import type { EndpointSlice } from "../../src/model/endpoint-slice.ts";
import { type FamilyName, families } from "../../src/model/family.ts";
import type { Plan } from "../../src/model/plan.ts";
import { makePlan } from "../../src/model/planner.ts";
import type { Protocol, Service, ServicePort } from "../../src/model/service.ts";
import type { ServiceInput } from "../../src/model/snapshot.ts";

export interface Dns {
  readonly name?: string;
  readonly ips?: readonly string[];
  readonly externalIPs?: readonly string[];
  readonly loadBalancerIPs?: readonly string[];
  readonly ports?: readonly (Partial<ServicePort> & { readonly targetPort?: number })[];
  /** Addresses that serve; with a leading `!` they exist but do not. */
  readonly endpoints?: readonly string[];
}

const nodes: Readonly<Record<FamilyName, string>> = { IPv4: "192.0.2.10", IPv6: "fd00:192::10" };

export function context(family: FamilyName, mode: ProxyMode): Context {
  return {
    mode,
    family: families[family],
    nodeName: "n1",
    nodeIP: nodes[family],
    zone: "",
    detectLocal: { kind: "none" },
    nodePorts: { any: true, addresses: [nodes[family]], loopback: true },
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    localhostNodePorts: true,
    ipvs: { scheduler: "rr", strictARP: false, excludeCIDRs: [], tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 },
    facts: { iptables: "nft", randomFully: true, nfacct: false, tcpBeLiberal: false, kernel: [6, 1] },
    gates: { nftablesCompact: false },
  };
}

const defaults: readonly ServicePort[] = [{ name: "dns", protocol: "udp", port: 53, nodePort: 0 }];

function input(dns: Dns): ServiceInput {
  const name = dns.name ?? "kube-dns";
  const ports = (dns.ports ?? defaults).map((port, i) => ({
    name: port.name ?? `p${i}`,
    protocol: port.protocol ?? ("udp" as Protocol),
    port: port.port ?? 53,
    nodePort: port.nodePort ?? 0,
  }));
  const service: Service = {
    namespace: "dns",
    name,
    key: `dns/${name}`,
    uid: name,
    createdAt: 1,
    clusterIPs: dns.ips ?? ["10.96.0.10", "fd00:10::a"],
    externalIPs: dns.externalIPs ?? [],
    loadBalancerIPs: dns.loadBalancerIPs ?? [],
    sourceRanges: [],
    ports,
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    healthCheckNodePort: 0,
  };
  const slice = (family: FamilyName): EndpointSlice => ({
    namespace: "dns",
    name: `${name}-${family}`,
    serviceKey: service.key,
    family,
    ports: ports.map(({ name: portName, protocol, port }, i) => ({
      name: portName,
      protocol,
      port: dns.ports?.[i]?.targetPort ?? port,
    })),
    endpoints: (dns.endpoints ?? []).flatMap((text) => {
      const ip = text.replace("!", "");
      const serving = !text.startsWith("!");
      if (ip.includes(":") !== (family === "IPv6")) return [];
      return [{ ip, nodeName: "n1", ready: serving, serving, terminating: !serving, zoneHints: [], nodeHints: [] }];
    }),
    lastChange: 0,
  });
  return { service, slices: [slice("IPv4"), slice("IPv6")] };
}

/** The plan of a world with these Services. */
export function plan(ctx: Context, services: readonly Dns[], previous?: Plan): Plan {
  const inputs = new Map(services.map((dns) => [`dns/${dns.name ?? "kube-dns"}`, input(dns)]));
  return makePlan({ services: inputs, node: undefined, serviceCIDRs: [] }, ctx, previous);
}
