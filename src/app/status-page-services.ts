/** The status page's table: Services that match a search, a bounded number at a time. */
import type { FamilyName } from "../model/family.ts";
import { joinHostPort } from "../model/ip.ts";
import type { Fate, Plan, PortPlan, ServicePlan } from "../model/plan.ts";

export interface ServiceRow {
  readonly service: string;
  readonly families: readonly FamilyName[];
  /** Cluster IPs first, then external and load-balancer addresses. */
  readonly addresses: readonly string[];
  /** `80/tcp`, `80/tcp (node port 30080)`. */
  readonly ports: readonly string[];
  /** Endpoints in use and all, over ports and families. */
  readonly used: number;
  readonly known: number;
  /** For a mark: traffic that ends nowhere. */
  readonly trouble: "" | "no endpoints" | "a port has no endpoints" | "no local endpoints";
}

export interface ServicesJson {
  readonly total: number;
  readonly matching: number;
  readonly offset: number;
  readonly rows: readonly ServiceRow[];
}

export const rowsAtOnce = 100;

/** Every word of the search must be part of the Service's name, an address, a port or an endpoint. */
export function findServices(
  plans: readonly (readonly [FamilyName, Plan])[],
  search: string,
  offset: number,
): ServicesJson {
  const words = search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, 8);
  const keys = new Set(plans.flatMap(([, plan]) => [...plan.services.keys()]));
  const found: string[] = [];
  for (const key of [...keys].sort()) {
    const own = plans.flatMap(([, plan]) => plan.services.get(key) ?? []);
    if (words.every((word) => own.some((service) => matches(service, word)))) found.push(key);
  }
  const rows = found.slice(offset, offset + rowsAtOnce).map((key) => rowOf(key, plans));
  return { total: keys.size, matching: found.length, offset, rows };
}

// --- internal ---

function matches(service: ServicePlan, word: string): boolean {
  if (service.key.includes(word)) return true;
  return service.ports.some(
    (port) =>
      port.clusterIP.includes(word) ||
      [...port.externalIPs, ...port.loadBalancerIPs].some((ip) => ip.includes(word)) ||
      portText(port).includes(word) ||
      port.portName.includes(word) ||
      [...port.endpoints, ...port.unused].some((e) => joinHostPort(e.ip, e.port).includes(word)),
  );
}

function rowOf(key: string, plans: readonly (readonly [FamilyName, Plan])[]): ServiceRow {
  const own = plans.flatMap(([family, plan]) => {
    const service = plan.services.get(key);
    return service === undefined ? [] : [{ family, service }];
  });
  const ports = own.flatMap(({ service }) => service.ports);
  return {
    service: key,
    families: own.map(({ family }) => family),
    addresses: unique([
      ...ports.map((p) => p.clusterIP),
      ...ports.flatMap((p) => [...p.externalIPs, ...p.loadBalancerIPs]),
    ]),
    ports: unique(ports.map(portText)),
    used: ports.reduce((n, p) => n + p.endpoints.length, 0),
    known: ports.reduce((n, p) => n + p.endpoints.length + p.unused.length, 0),
    trouble: worst(ports),
  };
}

function worst(ports: readonly PortPlan[]): ServiceRow["trouble"] {
  const fates: readonly Fate[] = ports.flatMap((p) => (p.exposed ? [p.internal, p.external] : [p.internal]));
  if (fates.every((fate) => fate === "reject")) return "no endpoints";
  if (fates.includes("reject")) return "a port has no endpoints";
  return fates.includes("drop") ? "no local endpoints" : "";
}

function portText({ port, protocol, nodePort }: PortPlan): string {
  return nodePort === 0 ? `${port}/${protocol}` : `${port}/${protocol} (node port ${nodePort})`;
}

function unique(list: readonly string[]): readonly string[] {
  return [...new Set(list)];
}
