/** Manifests for the tests of the command: a Node, a Service with everything, its slices. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const node = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "node-1", labels: { "topology.kubernetes.io/zone": "zone-a" } },
  spec: { podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"] },
  status: {
    addresses: [
      { type: "InternalIP", address: "192.168.0.2" },
      { type: "InternalIP", address: "fd00:192:168::2" },
    ],
  },
};

const web = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web", namespace: "shop" },
  spec: {
    type: "LoadBalancer",
    clusterIP: "10.96.0.10",
    clusterIPs: ["10.96.0.10", "fd00:10:96::10"],
    externalIPs: ["192.0.2.80"],
    externalTrafficPolicy: "Local",
    healthCheckNodePort: 31000,
    loadBalancerSourceRanges: ["203.0.113.0/24"],
    ports: [
      { name: "http", port: 80, nodePort: 30080, protocol: "TCP" },
      { name: "dns", port: 53, nodePort: 30053, protocol: "UDP" },
    ],
  },
  status: { loadBalancer: { ingress: [{ ip: "198.51.100.5" }] } },
};

/** Younger than `web`, and after its node port. */
const rival = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "rival", namespace: "shop", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: {
    type: "ClusterIP",
    clusterIP: "10.96.0.11",
    clusterIPs: ["10.96.0.11"],
    externalIPs: ["192.0.2.80"],
    sessionAffinity: "ClientIP",
    ports: [{ port: 80, protocol: "TCP" }],
  },
};

const slice = (service: string, port: string, endpoints: readonly unknown[]) => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: { name: `${service}-1`, namespace: "shop", labels: { "kubernetes.io/service-name": service } },
  addressType: "IPv4",
  ports: [{ name: port, port: 8080, protocol: "TCP" }],
  endpoints,
});

const endpoint = (ip: string, nodeName: string, conditions: Record<string, boolean> = { ready: true }) => ({
  addresses: [ip],
  nodeName,
  conditions,
});

const objects = [
  node,
  web,
  rival,
  slice("web", "http", [
    endpoint("10.244.1.5", "node-1"),
    endpoint("10.244.2.5", "node-2"),
    endpoint("10.244.2.6", "node-2", { ready: false, serving: true, terminating: true }),
    endpoint("10.244.2.7", "node-2", { ready: false }),
  ]),
  slice("rival", "", [endpoint("10.244.1.6", "node-1")]),
];

/** A folder with the manifests, and what removes it. */
export function writeManifests(): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(join(tmpdir(), "kube-proxy-explain-"));
  writeFileSync(join(folder, "objects.json"), JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
