/** Plans made by hand, for tests that need no cluster. */
import { type NftState, nftables } from "../../../src/backends/nftables/index.ts";
import type { Context } from "../../../src/model/context.ts";
import type { Endpoint, Plan, PortPlan, ServicePlan } from "../../../src/model/plan.ts";

/** An observation of a kernel without our table. */
export const absent = { kind: "observed", observed: { kind: "absent" } } as const;

export function endpoint(ip: string, local = false): Endpoint {
  return { ip, port: 8080, local, ready: true, serving: true, terminating: false } as Endpoint;
}

export function port(index: number, changes: Partial<PortPlan> = {}): PortPlan {
  const endpoints = changes.endpoints ?? [endpoint(`10.244.${index >> 8}.${index & 255}`)];
  return {
    name: `ns/svc-${index}:p`,
    portName: "p",
    protocol: "tcp",
    clusterIP: `10.96.${index >> 8}.${index & 255}`,
    port: 80,
    nodePort: 0,
    externalIPs: [],
    loadBalancerIPs: [],
    sourceRanges: [],
    affinitySeconds: 0,
    internal: "cluster",
    external: "cluster",
    internalLocal: false,
    externalLocal: false,
    exposed: false,
    usesCluster: true,
    usesLocal: false,
    clusterEndpoints: endpoints,
    localEndpoints: [],
    endpoints,
    unused: [],
    ...changes,
  };
}

export function service(index: number, ports: readonly PortPlan[], changes: Partial<ServicePlan> = {}): ServicePlan {
  const name = `svc-${index}`;
  return { key: `ns/${name}`, namespace: "ns", name, ports, endpointCount: 1, ...changes } as ServicePlan;
}

/** Makes the states of Services under one context. */
export function statesIn(context: Context) {
  return (services: readonly ServicePlan[], previous?: NftState): NftState => {
    const plan = { services: new Map(services.map((s) => [s.key, s])), serviceCIDRs: [] };
    return nftables.desired(plan as unknown as Plan, context, previous);
  };
}
