/** From a row's Services to API objects and addresses. Pure. */
import type { FamilyName } from "../../src/model/family.ts";
import {
  clusterCIDR,
  families,
  gateway,
  loopbackAddress,
  nodeAddress,
  nodeName,
  otherNodeAddress,
  otherNodeName,
  outsideAddress,
  podAddress,
  podCIDR,
  podNode,
  podPort,
  secondNodeAddress,
  secondOutsideAddress,
  serviceCIDR,
} from "../lab/topology.ts";
import type { Door, EndpointSpec, Row, ServiceSpec, SourceRange } from "./row.ts";

export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [key: string]: unknown };
  readonly [key: string]: unknown;
}

/** A Service of a row with the addresses it was given. */
export interface Placed {
  readonly spec: ServiceSpec;
  readonly id: number;
  readonly objectName: string;
  /** Whose load-balancer and external addresses it has. */
  readonly addressId: number;
}

export const namespace = "packets";

/** Numbers the Services of many rows from `first` on, so that none share an address. */
export function placeServices(rows: readonly Row[], first: number): ReadonlyMap<Row, ReadonlyMap<string, Placed>> {
  let next = first;
  return new Map(
    rows.map((row) => {
      const ids = new Map(row.services.map((spec) => [spec.name, next++]));
      const place = (spec: ServiceSpec): Placed => {
        const id = ids.get(spec.name) ?? 0;
        const addressId = spec.addressesOf === undefined ? id : (ids.get(spec.addressesOf) ?? id);
        return { spec, id, objectName: `s${id}-${spec.name}`, addressId };
      };
      return [row, new Map(row.services.map((spec) => [spec.name, place(spec)]))];
    }),
  );
}

const address = (v4: string, v6: string, id: number, family: FamilyName): string =>
  family === "IPv4" ? `${v4}.${id >> 8}.${id & 255}` : `${v6}::${id.toString(16)}`;

export const clusterIP = (id: number, family: FamilyName): string => address("10.96", "fd00:96", id, family);
export const loadBalancerIP = (id: number, family: FamilyName): string => address("172.30", "fd00:30", id, family);
export const externalIP = (id: number, family: FamilyName): string => address("172.31", "fd00:31", id, family);
export const nodePortOf = (id: number): number => 30000 + id;

/** Address and port behind a door. */
export function doorAddress(placed: Placed, door: Door, family: FamilyName): { ip: string; port: number } {
  const port = placed.spec.port ?? 80;
  const nodePort = nodePortOf(placed.id);
  switch (door) {
    case "cluster IP":
      return { ip: clusterIP(placed.id, family), port };
    case "load balancer":
      return { ip: loadBalancerIP(placed.addressId, family), port };
    case "external IP":
      return { ip: externalIP(placed.addressId, family), port };
    case "node port":
      return { ip: nodeAddress[family], port: nodePort };
    case "node port, second address":
      return { ip: secondNodeAddress[family], port: nodePort };
    case "node port, bridge address":
      return { ip: gateway[family], port: nodePort };
    case "node port, loopback":
      return { ip: loopbackAddress[family], port: nodePort };
  }
}

/** The Service object and one EndpointSlice a family. */
export function serviceObjects(placed: Placed): readonly ApiObject[] {
  return [serviceObject(placed), ...sliceObjects(placed, placed.spec.endpoints)];
}

function serviceObject({ spec, id, objectName, addressId }: Placed): ApiObject {
  const type = spec.type ?? "ClusterIP";
  const transports = spec.transports ?? ["tcp"];
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace, name: objectName, uid: `uid-${id}` },
    spec: {
      type,
      clusterIP: clusterIP(id, "IPv4"),
      clusterIPs: families.map((family) => clusterIP(id, family)),
      ipFamilies: families,
      ipFamilyPolicy: "RequireDualStack",
      ...(spec.external ? { externalIPs: families.map((family) => externalIP(addressId, family)) } : {}),
      ...(spec.ranges === undefined ? {} : { loadBalancerSourceRanges: spec.ranges.flatMap(rangeCIDRs) }),
      internalTrafficPolicy: spec.internalLocal ? "Local" : "Cluster",
      ...(type === "ClusterIP" ? {} : { externalTrafficPolicy: spec.externalLocal ? "Local" : "Cluster" }),
      ...(type === "LoadBalancer" && spec.externalLocal ? { healthCheckNodePort: 40000 + id } : {}),
      ...(spec.affinitySeconds === undefined
        ? { sessionAffinity: "None" }
        : {
            sessionAffinity: "ClientIP",
            sessionAffinityConfig: { clientIP: { timeoutSeconds: spec.affinitySeconds } },
          }),
      ports: transports.map((transport) => ({
        name: transport,
        protocol: transport.toUpperCase(),
        port: spec.port ?? 80,
        targetPort: podPort,
        ...(type === "ClusterIP" ? {} : { nodePort: nodePortOf(id) }),
      })),
    },
    status: {
      loadBalancer:
        type === "LoadBalancer"
          ? {
              ingress: families.map((family) => ({
                ip: loadBalancerIP(addressId, family),
                ipMode: spec.ipMode ?? "VIP",
              })),
            }
          : {},
    },
  };
}

/** The slices of a Service with these endpoints instead of its own. */
export function sliceObjects(placed: Placed, endpoints: ServiceSpec["endpoints"]): readonly ApiObject[] {
  const transports = placed.spec.transports ?? ["tcp"];
  return families.map((family) => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      namespace,
      name: `${placed.objectName}-${family.toLowerCase()}`,
      labels: { "kubernetes.io/service-name": placed.objectName },
    },
    addressType: family,
    ports: transports.map((transport) => ({ name: transport, protocol: transport.toUpperCase(), port: podPort })),
    endpoints: endpoints.map((endpoint) =>
      endpointObject(typeof endpoint === "string" ? { pod: endpoint } : endpoint, family),
    ),
  }));
}

function endpointObject(spec: EndpointSpec, family: FamilyName): unknown {
  const ready = spec.ready ?? true;
  return {
    addresses: [podAddress(spec.pod, family)],
    nodeName: podNode(spec.pod),
    conditions: { ready, serving: spec.serving ?? ready, terminating: spec.terminating ?? false },
    ...(spec.zones === undefined && spec.nodes === undefined
      ? {}
      : {
          hints: {
            ...(spec.zones === undefined ? {} : { forZones: spec.zones.map((name) => ({ name })) }),
            ...(spec.nodes === undefined ? {} : { forNodes: spec.nodes.map((name) => ({ name })) }),
          },
        }),
  };
}

function rangeCIDRs(range: SourceRange): readonly string[] {
  switch (range) {
    case "outside":
      return [`${outsideAddress.IPv4}/32`, `${outsideAddress.IPv6}/128`];
    case "outside-2":
      return [`${secondOutsideAddress.IPv4}/32`, `${secondOutsideAddress.IPv6}/128`];
    case "pods":
      return [clusterCIDR.IPv4, clusterCIDR.IPv6];
    case "node":
      return [`${nodeAddress.IPv4}/32`, `${nodeAddress.IPv6}/128`];
    case "nobody":
      return ["203.0.113.77/32", "fd00:dead::77/128"];
  }
}

/** Both Nodes and the ServiceCIDR. */
export function clusterObjects(): readonly ApiObject[] {
  const node = (name: string, ips: readonly string[], podCIDRs: readonly string[], zone: string): ApiObject => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      uid: `uid-${name}`,
      labels: { "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone },
    },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: {
      addresses: [...ips.map((ip) => ({ type: "InternalIP", address: ip })), { type: "Hostname", address: name }],
    },
  });
  return [
    node(nodeName, [nodeAddress.IPv4, nodeAddress.IPv6], [podCIDR.IPv4, podCIDR.IPv6], "zone-a"),
    node(otherNodeName, [otherNodeAddress.IPv4, otherNodeAddress.IPv6], ["10.1.2.0/24", "fd00:1:2::/64"], "zone-b"),
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "ServiceCIDR",
      metadata: { name: "kubernetes" },
      spec: { cidrs: [serviceCIDR.IPv4, serviceCIDR.IPv6] },
    },
  ];
}
