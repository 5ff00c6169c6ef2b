/** A synthetic cluster: N Services of one port with E endpoints each, as the reference figures were taken with. */

export interface Size {
  readonly services: number;
  readonly endpoints: number;
}

type ApiObject = Record<string, unknown>;

const address = (base: number, i: number): string => `${base}.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`;

export function serviceObject(i: number): ApiObject {
  const clusterIP = address(10, 0x600000 + i + 1);
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "bench", name: `svc-${i}`, uid: `uid-${i}`, creationTimestamp: "2026-01-01T00:00:00Z" },
    spec: {
      type: "ClusterIP",
      clusterIP,
      clusterIPs: [clusterIP],
      ipFamilies: ["IPv4"],
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 8080 }],
      sessionAffinity: "None",
      internalTrafficPolicy: "Cluster",
    },
    status: { loadBalancer: {} },
  };
}

/** `shift` moves the first endpoint to another address: the smallest real change. */
export function sliceObject(i: number, { endpoints }: Size, shift = 0): ApiObject {
  const list = Array.from({ length: endpoints }, (_, e) => {
    const n = i * endpoints + e;
    const ip =
      e === 0 && shift > 0 ? address(10, 0xf80000 + ((n + shift * 7919) & 0x7ffff)) : address(10, 0xb00000 + n);
    return {
      addresses: [ip],
      nodeName: `node-${1 + (n % 50)}`,
      conditions: { ready: true, serving: true, terminating: false },
    };
  });
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace: "bench",
      name: `svc-${i}-abcde`,
      labels: {
        "kubernetes.io/service-name": `svc-${i}`,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
      },
    },
    addressType: "IPv4",
    ports: [{ name: "http", protocol: "TCP", port: 8080 }],
    endpoints: list,
  };
}

export function nodeObject(): ApiObject {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node-1", labels: { "kubernetes.io/hostname": "node-1" } },
    spec: { podCIDR: "10.244.1.0/24", podCIDRs: ["10.244.1.0/24"] },
    status: { addresses: [{ type: "InternalIP", address: "192.168.0.2" }] },
  };
}

/** One Service with 1,000 endpoints in ten slices; `generation` moves all endpoints of a slice, as a rolling restart does. */
export function wideSlice(part: number, generation: number): ApiObject {
  const slice = sliceObject(0, { services: 1, endpoints: 100 }) as { metadata: Record<string, unknown> };
  return {
    ...slice,
    metadata: { namespace: "bench", name: `wide-${part}`, labels: { "kubernetes.io/service-name": "wide" } },
    endpoints: Array.from({ length: 100 }, (_, e) => ({
      addresses: [`10.${200 + generation}.${part}.${e + 1}`],
      nodeName: `node-${1 + (e % 50)}`,
      conditions: { ready: true, serving: true, terminating: false },
    })),
  };
}

export function wideService(): ApiObject {
  const service = serviceObject(0x80000) as { metadata: Record<string, unknown> };
  return { ...service, metadata: { ...service.metadata, name: "wide", uid: "wide" } };
}
