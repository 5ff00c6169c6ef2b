/** Small clusters for the tests of the ipvs backend: Services and their endpoints as API objects, and contexts. */
import type { Context } from "../../../src/model/context.ts";
import { parseEndpointSlice } from "../../../src/model/endpoint-slice-parse.ts";
import { type FamilyName, families } from "../../../src/model/family.ts";
import { parseService } from "../../../src/model/service-parse.ts";
import type { ServiceInput, Snapshot } from "../../../src/model/snapshot.ts";

export interface Wanted {
  readonly name: string;
  readonly ip: string;
  readonly protocol?: "TCP" | "UDP" | "SCTP";
  readonly port?: number;
  /** Addresses; those in 10.244.1.0/24 are on this node. */
  readonly endpoints: readonly string[];
  /** Laid over `spec`. */
  readonly spec?: object;
  readonly status?: object;
}

export function makeInput({
  name,
  ip,
  protocol = "TCP",
  port = 80,
  endpoints,
  spec = {},
  status = {},
}: Wanted): ServiceInput {
  const ports = [{ name: "", port, protocol, targetPort: 8080 }];
  const service = parseService({
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "ns", name },
    spec: { type: "ClusterIP", clusterIP: ip, clusterIPs: [ip], ports, ...spec },
    status,
  }).value;
  const slice = parseEndpointSlice({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { namespace: "ns", name: `${name}-a`, labels: { "kubernetes.io/service-name": name } },
    addressType: ip.includes(":") ? "IPv6" : "IPv4",
    ports: [{ name: "", port: 8080, protocol }],
    endpoints: endpoints.map((address) => ({
      addresses: [address],
      nodeName: address.startsWith("10.244.1.") ? "node-1" : "node-2",
      conditions: { ready: true, serving: true, terminating: false },
    })),
  }).value;
  if (service === undefined || slice === undefined) throw new Error(`${name}: the test's objects do not parse`);
  return { service, slices: [slice] };
}

export function snapshotOf(...inputs: readonly ServiceInput[]): Snapshot {
  return { services: new Map(inputs.map((i) => [i.service.key, i])), node: undefined, serviceCIDRs: [] };
}

export function contextOf(over: Partial<Context["ipvs"]> = {}, family: FamilyName = "IPv4"): Context {
  return {
    mode: "ipvs",
    family: families[family],
    nodeName: "node-1",
    nodeIP: family === "IPv4" ? "192.168.0.2" : "fd00:192:168::2",
    zone: "",
    detectLocal: { kind: "cidr", cidr: family === "IPv4" ? "10.244.0.0/16" : "fd00:10:244::/56" },
    nodePorts: { any: true, loopback: true, addresses: [family === "IPv4" ? "192.168.0.2" : "fd00:192:168::2"] },
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    localhostNodePorts: false,
    ipvs: {
      scheduler: "rr",
      strictARP: false,
      excludeCIDRs: [],
      tcpTimeout: 0,
      tcpFinTimeout: 0,
      udpTimeout: 0,
      ...over,
    },
    facts: { iptables: "legacy", randomFully: true, nfacct: false, tcpBeLiberal: false, kernel: [6, 1] },
    gates: { nftablesCompact: false },
  };
}
