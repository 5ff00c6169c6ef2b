/** From the JSON of a Service to what the rules need of it, with remarks about what had to be left out. */
import { parseCIDR, parseIP } from "./ip.ts";
import { asInteger, asList, asName, asText, asTime, dig, field, show } from "./json.ts";
import type { Note, Parsed } from "./note.ts";
import type { Protocol, Service, ServicePort } from "./service.ts";

const skipped: Parsed<Service> = { value: undefined, notes: [] };

/**
 * A Service that gives rules, or no value and no notes for one that never does (headless, ExternalName, served by
 * another proxy), or notes about what is malformed: the malformed part is left out, the rest is kept.
 */
export function parseService(raw: unknown): Parsed<Service> {
  const namespace = asName(dig(raw, "metadata", "namespace"));
  const name = asName(dig(raw, "metadata", "name"));
  if (namespace === undefined || name === undefined) return { value: undefined, notes: [badName(raw)] };
  const reader = new FieldReader(`${namespace}/${name}`);
  const spec = dig(raw, "spec");
  const type = asText(field(spec, "type")) ?? "ClusterIP";
  if (type === "ExternalName" || isForAnotherProxy(raw)) return skipped;
  const clusterIPs = clusterIPsOf(spec, reader);
  if (clusterIPs === undefined) return skipped;
  if (clusterIPs.length === 0) {
    reader.note("spec.clusterIP", "no usable cluster IP: the Service is left out");
    return { value: undefined, notes: reader.notes };
  }
  const exposed = type === "NodePort" || type === "LoadBalancer";
  const value: Service = {
    namespace,
    name,
    key: `${namespace}/${name}`,
    uid: asText(dig(raw, "metadata", "uid")) ?? "",
    createdAt: asTime(dig(raw, "metadata", "creationTimestamp")) ?? 0,
    clusterIPs,
    externalIPs: reader.addresses(field(spec, "externalIPs"), "spec.externalIPs"),
    loadBalancerIPs: type === "LoadBalancer" ? loadBalancerIPs(raw, reader) : [],
    sourceRanges: type === "LoadBalancer" ? sourceRanges(raw, reader) : [],
    ports: servicePorts(spec, exposed, reader),
    affinitySeconds: affinity(spec, reader),
    internalLocal: policy(spec, "internalTrafficPolicy", reader),
    externalLocal: policy(spec, "externalTrafficPolicy", reader),
    healthCheckNodePort: type === "LoadBalancer" ? healthCheckPort(spec, reader) : 0,
  };
  return { value, notes: reader.notes };
}

// --- internal ---

function badName(raw: unknown): Note {
  const namespace = show(dig(raw, "metadata", "namespace"));
  const name = show(dig(raw, "metadata", "name"));
  return {
    kind: "Service",
    object: `${namespace}/${name}`,
    field: "metadata.name",
    message: "not a valid name: left out",
  };
}

/** KEP-2447: another proxy serves it. The API server filters by this label too; manifests do not. */
function isForAnotherProxy(raw: unknown): boolean {
  return asText(dig(raw, "metadata", "labels", "service.kubernetes.io/service-proxy-name")) !== undefined;
}

/** Collects remarks while fields of one object are read. */
class FieldReader {
  readonly notes: Note[] = [];
  readonly #object: string;
  constructor(object: string) {
    this.#object = object;
  }

  note(path: string, message: string): void {
    this.notes.push({ kind: "Service", object: this.#object, field: path, message });
  }

  /** Canonical addresses without duplicates; others are noted and left out. */
  addresses(value: unknown, path: string): readonly string[] {
    const out = new Set<string>();
    for (const [i, item] of asList(value).entries()) {
      const ip = parseIP(asText(item) ?? "");
      if (ip === undefined) this.note(`${path}[${i}]`, `${show(item)} is not an IP address: left out`);
      else out.add(ip);
    }
    return [...out];
  }
}

/** Undefined: headless or not allocated yet, so there is nothing to serve. */
function clusterIPsOf(spec: unknown, reader: FieldReader): readonly string[] | undefined {
  const first = asText(field(spec, "clusterIP")) ?? "";
  const list = asList(field(spec, "clusterIPs"));
  const all = list.length > 0 ? list : [first];
  if (first === "None" || first === "" || all[0] === "None") return undefined;
  const ips = reader.addresses(all, "spec.clusterIPs");
  // At most one address a family counts: the first.
  return ips.filter((ip, i) => ips.findIndex((other) => other.includes(":") === ip.includes(":")) === i);
}

function loadBalancerIPs(raw: unknown, reader: FieldReader): readonly string[] {
  const ingress = asList(dig(raw, "status", "loadBalancer", "ingress"));
  // ipMode Proxy (KEP-1860): the load balancer wants to see the packets itself. Host-name entries have no ip.
  const own = ingress.filter(
    (i) => (asText(field(i, "ip")) ?? "") !== "" && (asText(field(i, "ipMode")) ?? "VIP") === "VIP",
  );
  return reader.addresses(
    own.map((i) => field(i, "ip")),
    "status.loadBalancer.ingress",
  );
}

function sourceRanges(raw: unknown, reader: FieldReader): readonly string[] {
  const out = new Set<string>();
  for (const [i, item] of asList(dig(raw, "spec", "loadBalancerSourceRanges")).entries()) {
    const text = (asText(item) ?? "").trim();
    const cidr = parseCIDR(text);
    if (cidr !== undefined) out.add(cidr);
    else {
      // Left out, but never so that the list becomes empty and thereby open to everyone.
      reader.note(`spec.loadBalancerSourceRanges[${i}]`, `${show(item)} is not a CIDR: it allows nobody`);
      out.add("0.0.0.0/32").add("::/128");
    }
  }
  return [...out];
}

const protocols: Readonly<Record<string, Protocol>> = { TCP: "tcp", UDP: "udp", SCTP: "sctp" };

/** A protocol as the API spells it; absent means TCP. */
export function parseProtocol(value: unknown): Protocol | undefined {
  const text = value === undefined || value === null ? "TCP" : asText(value);
  return text !== undefined && Object.hasOwn(protocols, text) ? protocols[text] : undefined;
}

/** A port name: empty, or a DNS-1123 label. */
export function parsePortName(value: unknown): string | undefined {
  return value === undefined || value === null || value === "" ? "" : asName(value);
}

function servicePorts(spec: unknown, exposed: boolean, reader: FieldReader): readonly ServicePort[] {
  const out: ServicePort[] = [];
  for (const [i, raw] of asList(field(spec, "ports")).entries()) {
    const path = `spec.ports[${i}]`;
    const name = parsePortName(field(raw, "name"));
    const protocol = parseProtocol(field(raw, "protocol"));
    const port = asInteger(field(raw, "port"), 1, 65535);
    if (name === undefined)
      reader.note(`${path}.name`, `${show(field(raw, "name"))} is not a port name: port left out`);
    else if (protocol === undefined)
      reader.note(`${path}.protocol`, `${show(field(raw, "protocol"))} is not TCP, UDP or SCTP: port left out`);
    else if (port === undefined)
      reader.note(`${path}.port`, `${show(field(raw, "port"))} is not a port (1–65535): port left out`);
    else if (out.some((p) => p.name === name && p.protocol === protocol))
      reader.note(`${path}.name`, `a second port ${show(name)}: left out`);
    else out.push({ name, protocol, port, nodePort: exposed ? nodePort(raw, path, reader) : 0 });
  }
  return out;
}

function nodePort(raw: unknown, path: string, reader: FieldReader): number {
  const value = field(raw, "nodePort");
  if (value === undefined || value === null || value === 0) return 0;
  const port = asInteger(value, 1, 65535);
  if (port === undefined) reader.note(`${path}.nodePort`, `${show(value)} is not a port (1–65535): no node port`);
  return port ?? 0;
}

function affinity(spec: unknown, reader: FieldReader): number {
  const kind = field(spec, "sessionAffinity") ?? "None";
  if (kind === "None" || kind === "") return 0;
  if (kind !== "ClientIP") {
    reader.note("spec.sessionAffinity", `${show(kind)} is neither None nor ClientIP: no affinity`);
    return 0;
  }
  const seconds = dig(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds");
  const value = asInteger(seconds ?? 10800, 1, 86400);
  if (value === undefined)
    reader.note("spec.sessionAffinityConfig.clientIP.timeoutSeconds", `${show(seconds)} is not 1–86400: 10800 is used`);
  return value ?? 10800;
}

function policy(spec: unknown, name: string, reader: FieldReader): boolean {
  const value = field(spec, name) ?? "Cluster";
  if (value !== "Cluster" && value !== "Local" && value !== "")
    reader.note(`spec.${name}`, `${show(value)} is neither Cluster nor Local: Cluster is used`);
  return value === "Local";
}

function healthCheckPort(spec: unknown, reader: FieldReader): number {
  const value = field(spec, "healthCheckNodePort");
  if (value === undefined || value === null || value === 0 || field(spec, "externalTrafficPolicy") !== "Local")
    return 0;
  const port = asInteger(value, 1, 65535);
  if (port === undefined)
    reader.note("spec.healthCheckNodePort", `${show(value)} is not a port (1–65535): none opened`);
  return port ?? 0;
}
