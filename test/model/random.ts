/** Seeded random clusters: raw API objects as a real API server would give them, and snapshots of them. */
import type { EndpointSlice } from "../../src/model/endpoint-slice.ts";
import { parseEndpointSlice } from "../../src/model/endpoint-slice-parse.ts";
import type { Service } from "../../src/model/service.ts";
import { parseService } from "../../src/model/service-parse.ts";
import type { ServiceInput, Snapshot } from "../../src/model/snapshot.ts";

/** Mulberry32: the same seed gives the same numbers everywhere. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** An integer from 0 to below `n`. */
  below(n: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * n);
  }

  chance(percent: number): boolean {
    return this.below(100) < percent;
  }

  pick<T>(list: readonly T[]): T {
    const item = list[this.below(list.length)];
    if (item === undefined) throw new Error("empty list");
    return item;
  }
}

export interface RawService {
  readonly service: Record<string, unknown>;
  readonly slices: readonly Record<string, unknown>[];
}

/** One Service of any kind with its slices. `index` makes addresses and node ports unique. */
export function randomService(random: Random, index: number): RawService {
  const name = `svc-${index}`;
  const namespace = random.pick(["default", "shop", "kube-system"]);
  const type = random.pick(["ClusterIP", "ClusterIP", "NodePort", "LoadBalancer"]);
  const families = random.pick([["IPv4"], ["IPv4"], ["IPv6"], ["IPv4", "IPv6"]]);
  const ip = (family: string, v4: string, v6: string): string =>
    family === "IPv4" ? `${v4}.${index >> 8}.${index & 255}` : `${v6}::${(index + 1).toString(16)}`;
  const clusterIPs = families.map((f) => ip(f, "10.96", "fd00:10:96"));
  const ports = Array.from({ length: 1 + random.below(2) }, (_, i) => ({
    name: `p${i}`,
    protocol: random.pick(["TCP", "TCP", "UDP", "SCTP"]),
    port: 80 + i,
    ...(type === "ClusterIP" ? {} : { nodePort: 30000 + index * 2 + i }),
  }));
  const external = type === "LoadBalancer" || random.chance(20);
  const spec = {
    type,
    clusterIP: clusterIPs[0],
    clusterIPs,
    ports,
    externalIPs: random.chance(20) ? families.map((f) => ip(f, "198.18", "2001:db8:1")) : [],
    sessionAffinity: random.chance(20) ? "ClientIP" : "None",
    sessionAffinityConfig: { clientIP: { timeoutSeconds: random.pick([10800, 300]) } },
    internalTrafficPolicy: random.chance(20) ? "Local" : "Cluster",
    externalTrafficPolicy: external && random.chance(40) ? "Local" : "Cluster",
    loadBalancerSourceRanges: random.chance(30) ? ["198.51.100.0/24", "2001:db8:2::/48"] : [],
    ...(type === "LoadBalancer" ? { healthCheckNodePort: 40000 + index } : {}),
  };
  const ingress =
    type === "LoadBalancer" ? families.map((f) => ({ ip: ip(f, "203.0", "2001:db8:3"), ipMode: "VIP" })) : [];
  const service = { metadata: { namespace, name, uid: name }, spec, status: { loadBalancer: { ingress } } };
  return { service, slices: families.map((f) => randomSlice(random, namespace, name, f, ports)) };
}

/** A slice with up to six endpoints on three nodes, some not ready or terminating. */
export function randomSlice(
  random: Random,
  namespace: string,
  service: string,
  family: string,
  ports: readonly { readonly name: string; readonly protocol: string }[],
): Record<string, unknown> {
  const endpoints = Array.from({ length: random.below(7) }, () => {
    const node = 1 + random.below(3);
    const last = 1 + random.below(40);
    const terminating = random.chance(15);
    const ready = !terminating && random.chance(85);
    return {
      addresses: [family === "IPv4" ? `10.244.${node}.${last}` : `fd00:10:244:${node}::${last}`],
      nodeName: `node-${node}`,
      conditions: { ready, serving: ready || random.chance(60), terminating },
      ...(random.chance(10) ? { hints: { forZones: [{ name: random.pick(["zone-a", "zone-b"]) }] } } : {}),
    };
  });
  return {
    metadata: {
      namespace,
      name: `${service}-${family.toLowerCase()}`,
      labels: { "kubernetes.io/service-name": service },
    },
    addressType: family,
    ports: ports.map((p, i) => ({ name: p.name, protocol: p.protocol, port: 8080 + i })),
    endpoints,
  };
}

/** Parses raw objects into a snapshot; entries of `previous` whose raw objects are the same keep their identity. */
export function snapshotOf(raw: readonly RawService[], memory = new Map<RawService, ServiceInput>()): Snapshot {
  const services = new Map<string, ServiceInput>();
  for (const one of raw) {
    const input = memory.get(one) ?? inputOf(one);
    if (input === undefined) continue;
    memory.set(one, input);
    services.set(input.service.key, input);
  }
  return { services, node: undefined, serviceCIDRs: [] };
}

function inputOf({ service, slices }: RawService): ServiceInput | undefined {
  const parsed: Service | undefined = parseService(service).value;
  if (parsed === undefined) return undefined;
  const list = slices.flatMap((s): readonly EndpointSlice[] => {
    const { value } = parseEndpointSlice(s);
    return value === undefined ? [] : [value];
  });
  return { service: parsed, slices: list };
}

/** A cluster and a changed version of it: some Services gone, some new, some with other endpoints. */
export function randomChange(random: Random, before: readonly RawService[], nextIndex: number): readonly RawService[] {
  const kept = before.filter(() => random.chance(85));
  const changed = kept.map((one) => {
    if (!random.chance(30)) return one;
    const spec = one.service["spec"] as { ports: { name: string; protocol: string }[] };
    const meta = one.service["metadata"] as { namespace: string; name: string };
    return {
      service: one.service,
      slices: one.slices.map((s) =>
        randomSlice(random, meta.namespace, meta.name, String(s["addressType"]), spec.ports),
      ),
    };
  });
  const added = Array.from({ length: random.below(3) }, (_, i) => randomService(random, nextIndex + i));
  return [...changed, ...added];
}
