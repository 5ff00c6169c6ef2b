/** Plans made from Services and endpoints in numbers, for the laws and the large cases. */

import type { Context } from "../../../src/model/context.ts";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import { IPv4 } from "../../../src/model/family.ts";
import type { Plan } from "../../../src/model/plan.ts";
import { makePlan } from "../../../src/model/planner.ts";
import type { Service } from "../../../src/model/service.ts";
import type { ServiceInput } from "../../../src/model/snapshot.ts";

export const context: Context = {
  mode: "iptables",
  family: IPv4,
  nodeName: "node-1",
  nodeIP: "192.168.0.2",
  zone: "",
  detectLocal: { kind: "cidr", cidr: "10.0.0.0/8" },
  nodePorts: { any: true, addresses: ["192.168.0.2"], loopback: true },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localhostNodePorts: true,
  ipvs: { scheduler: "", strictARP: false, excludeCIDRs: [], tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 },
  facts: { iptables: "nft", randomFully: true, nfacct: false, tcpBeLiberal: false, kernel: [6, 1] },
  gates: { nftablesCompact: false },
};

export const legacy: Context = { ...context, facts: { ...context.facts, iptables: "legacy" } };

/** A Service with endpoints 10.x.y.z picked by number. */
export function service(index: number, endpoints: readonly number[], more: Partial<Service> = {}): ServiceInput {
  const name = more.name ?? `svc-${index}`;
  const key = `ns/${name}`;
  const made: Service = {
    namespace: "ns",
    name,
    key,
    uid: key,
    createdAt: 1,
    clusterIPs: [`172.${16 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`],
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: [],
    ports: [{ name: "http", protocol: "tcp", port: 80, nodePort: 0 }],
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    healthCheckNodePort: 0,
    ...more,
  };
  return { service: made, slices: [slice(key, endpoints)] };
}

function slice(serviceKey: string, endpoints: readonly number[]): EndpointSlice {
  return {
    namespace: "ns",
    name: "slice",
    serviceKey,
    family: "IPv4",
    ports: [{ name: "http", protocol: "tcp", port: 8080 }],
    endpoints: endpoints.map((e) => ({
      ip: `10.${(e >> 16) & 255}.${(e >> 8) & 255}.${e & 255}`,
      nodeName: e % 3 === 0 ? "node-1" : "node-2",
      ready: true,
      serving: true,
      terminating: false,
      zoneHints: [],
      nodeHints: [],
    })),
    lastChange: 0,
  };
}

export function planOf(inputs: readonly ServiceInput[], given: Context = context, previous?: Plan): Plan {
  const services = new Map(inputs.map((input) => [input.service.key, input]));
  return makePlan({ services, node: undefined, serviceCIDRs: [] }, given, previous);
}

/** `count` Services with `each` endpoints, all distinct. */
export function manyServices(count: number, each: number): ServiceInput[] {
  return Array.from({ length: count }, (_, i) =>
    service(
      i,
      Array.from({ length: each }, (_, e) => i * each + e + 1),
    ),
  );
}
