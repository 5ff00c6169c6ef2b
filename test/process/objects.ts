/** Objects for the process tests, short. */
import type { ApiObject } from "../api/object-store.ts";

export function service(
  name: string,
  spec: Record<string, unknown> = {},
  meta: Record<string, unknown> = {},
): ApiObject {
  const clusterIP = (spec["clusterIP"] as string | undefined) ?? "10.96.0.10";
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "ns", name, ...meta },
    spec: {
      type: "ClusterIP",
      clusterIP,
      clusterIPs: [clusterIP],
      ports: [{ port: 80, protocol: "TCP", targetPort: 8080 }],
      ...spec,
    },
    status: { loadBalancer: {} },
  } as unknown as ApiObject;
}

/** `endpoints`: `ip@node` or `ip`. */
export function slice(name: string, endpoints: readonly string[], more: Record<string, unknown> = {}): ApiObject {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace: "ns",
      name: `${name}-1`,
      labels: { "kubernetes.io/service-name": name },
      ...(more["metadata"] as object),
    },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: endpoints.map((text) => {
      const [ip, nodeName = "node-2"] = text.split("@");
      return {
        addresses: [ip],
        nodeName,
        conditions: { ready: true, serving: true, terminating: false },
        ...(more["endpoint"] as object),
      };
    }),
  } as unknown as ApiObject;
}

export const node1 = {
  addresses: ["192.168.0.2", "fd00:192:168::2"],
  podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"],
  labels: { "topology.kubernetes.io/zone": "zone-a" },
};
