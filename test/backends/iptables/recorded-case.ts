/** The recorded cases as snapshots and contexts; the configuration is read by hand here, not by the code under test. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { Context, LocalDetector } from "../../../src/model/context.ts";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import { parseEndpointSlice } from "../../../src/model/endpoint-slice-parse.ts";
import { type FamilyName, families } from "../../../src/model/family.ts";
import type { NodeInfo } from "../../../src/model/node.ts";
import { parseNode } from "../../../src/model/node-parse.ts";
import type { Service } from "../../../src/model/service.ts";
import { parseService } from "../../../src/model/service-parse.ts";
import type { ServiceInput, Snapshot } from "../../../src/model/snapshot.ts";

const inTree = join(import.meta.dir, "../../conformance/cases");
export const casesRoot = existsSync(inTree) ? inTree : "/work/shared/conformance/cases";

interface RawObject {
  readonly kind: string;
  readonly metadata: { readonly namespace?: string; readonly name: string; readonly labels?: Record<string, string> };
  readonly spec?: { readonly clusterIP?: string };
}

interface RawCase {
  readonly about: string;
  readonly modes?: readonly string[];
  readonly config?: Record<string, unknown> & {
    readonly iptables?: { masqueradeAll?: boolean; masqueradeBit?: number; localhostNodePorts?: boolean };
    readonly nodePortAddresses?: readonly string[];
    readonly clusterCIDR?: string;
    readonly detectLocalMode?: string;
    readonly detectLocal?: { bridgeInterface?: string; interfaceNamePrefix?: string };
  };
  readonly args?: readonly string[];
  readonly node?: { name: string; internalIPs: string[]; podCIDRs: string[]; labels: Record<string, string> };
  readonly steps: readonly { readonly apply?: readonly RawObject[]; readonly delete?: readonly RawObject[] }[];
}

export interface RecordedStep {
  readonly contexts: Readonly<Record<FamilyName, Context>>;
  readonly snapshot: Snapshot;
  /** Canonical iptables-save by family; undefined: nothing recorded. */
  readonly recorded: Readonly<Record<FamilyName, string | undefined>>;
}

export interface RecordedCase {
  readonly name: string;
  readonly steps: readonly RecordedStep[];
}

export function caseNames(): string[] {
  return readdirSync(casesRoot)
    .sort()
    .filter((name) => existsSync(join(casesRoot, name, "iptables")));
}

export function readCase(name: string): RecordedCase {
  const raw: RawCase = parse(readFileSync(join(casesRoot, name, "case.yaml"), "utf8"));
  const objects = new Map<string, RawObject>();
  let node: unknown = rawNode(raw);
  const steps = raw.steps.map((step, i) => {
    for (const object of step.apply ?? []) {
      if (object.kind === "Node") node = object;
      else objects.set(keyOf(object), object);
    }
    for (const object of step.delete ?? []) objects.delete(keyOf(object));
    const path = (what: string): string => join(casesRoot, name, "iptables", `${i + 1}.${what}`);
    const text = (what: string): string | undefined =>
      existsSync(path(what)) ? readFileSync(path(what), "utf8") : undefined;
    const snapshot = snapshotOf([...objects.values()], node);
    const zone = snapshot.node?.zone ?? "";
    return {
      contexts: { IPv4: contextOf(raw, zone, "IPv4"), IPv6: contextOf(raw, zone, "IPv6") },
      snapshot,
      recorded: { IPv4: text("iptables"), IPv6: text("ip6tables") },
    };
  });
  return { name, steps };
}

// --- internal ---

function keyOf(object: RawObject): string {
  return `${object.kind} ${object.metadata.namespace ?? ""}/${object.metadata.name}`;
}

function rawNode(raw: RawCase): unknown {
  const node = raw.node ?? {
    name: "node-1",
    internalIPs: ["192.168.0.2", "fd00:192:168::2"],
    podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"],
    labels: { "kubernetes.io/hostname": "node-1", "topology.kubernetes.io/zone": "zone-a" },
  };
  return {
    kind: "Node",
    metadata: { name: node.name, labels: node.labels },
    spec: { podCIDRs: node.podCIDRs },
    status: { addresses: node.internalIPs.map((address) => ({ type: "InternalIP", address })) },
  };
}

function snapshotOf(objects: readonly RawObject[], rawNodeObject: unknown): Snapshot {
  const services: Service[] = [];
  const slices: EndpointSlice[] = [];
  for (const object of objects) {
    const labels = object.metadata.labels ?? {};
    if (object.kind === "Service") {
      if ("service.kubernetes.io/service-proxy-name" in labels || object.spec?.clusterIP === "None") continue;
      const { value } = parseService(object);
      if (value !== undefined) services.push(value);
    } else if (object.kind === "EndpointSlice" && !("service.kubernetes.io/headless" in labels)) {
      const { value } = parseEndpointSlice(object);
      if (value !== undefined) slices.push(value);
    }
  }
  const inputs = services.map((service): [string, ServiceInput] => {
    const own = slices.filter((s) => s.serviceKey === service.key).sort((a, b) => (a.name < b.name ? -1 : 1));
    return [service.key, { service, slices: own }];
  });
  const node: NodeInfo | undefined = parseNode(rawNodeObject).value;
  return { services: new Map(inputs), node, serviceCIDRs: [] };
}

function contextOf(raw: RawCase, zone: string, family: FamilyName): Context {
  const { config = {} } = raw;
  const six = family === "IPv6";
  const ofFamily = (list: readonly string[]): string | undefined => list.find((a) => a.includes(":") === six);
  const ips = raw.node?.internalIPs ?? ["192.168.0.2", "fd00:192:168::2"];
  const nodeIP = ofFamily(ips) ?? (six ? "::1" : "127.0.0.1");
  const addresses = config.nodePortAddresses ?? [];
  const zero = six ? "::/0" : "0.0.0.0/0";
  const any = !addresses.some((a) => a === "primary" || a.includes(":") === six) || addresses.includes(zero);
  return {
    mode: "iptables",
    family: families[family],
    nodeName: raw.node?.name ?? "node-1",
    nodeIP,
    zone,
    detectLocal: detectorOf(raw, ofFamily),
    nodePorts: { any, addresses: [nodeIP], loopback: any },
    masqueradeAll: config.iptables?.masqueradeAll ?? false,
    masqueradeMark: 2 ** (config.iptables?.masqueradeBit ?? 14),
    localhostNodePorts: config.iptables?.localhostNodePorts ?? true,
    ipvs: { scheduler: "", strictARP: false, excludeCIDRs: [], tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 },
    facts: { iptables: "nft", randomFully: true, nfacct: true, tcpBeLiberal: false, kernel: [6, 1] },
    gates: { nftablesCompact: false },
  };
}

function detectorOf(raw: RawCase, ofFamily: (list: readonly string[]) => string | undefined): LocalDetector {
  const { config = {} } = raw;
  switch (config.detectLocalMode) {
    case "BridgeInterface":
      return { kind: "bridge", name: config.detectLocal?.bridgeInterface ?? "" };
    case "InterfaceNamePrefix":
      return { kind: "prefix", prefix: config.detectLocal?.interfaceNamePrefix ?? "" };
    default: {
      const all = config.clusterCIDR ?? "10.244.0.0/16,fd00:10:244::/56";
      const podCIDRs = raw.node?.podCIDRs ?? ["10.244.1.0/24", "fd00:10:244:1::/64"];
      const cidr = ofFamily(config.detectLocalMode === "NodeCIDR" ? podCIDRs : all.split(",").filter((c) => c !== ""));
      return cidr === undefined ? { kind: "none" } : { kind: "cidr", cidr };
    }
  }
}
