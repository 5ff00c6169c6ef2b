/** Names of the objects of one Service port: a hash of the whole name and as much of the name as fits. */
import { digest } from "../../model/digest.ts";
import type { Endpoint, PortPlan, ServicePlan } from "../../model/plan.ts";
import { identifier } from "../../tools/nft-rule.ts";

/** The kernel's limit is 255; the longest prefix, with its hyphen, is given 16 of them. */
const LIMIT = 255 - 16;

function bounded(text: string): string {
  const name = `${digest(text, 8)}-${identifier(text)}`;
  return name.length > LIMIT ? `${name.slice(0, LIMIT - 3)}...` : name;
}

/** `HASH-namespace/name/protocol/portname`; goes after `service-`, `local-`, `external-`, `firewall-`. */
export function portName(service: ServicePlan, port: PortPlan): string {
  return bounded(portText(service, port));
}

/** `HASH-namespace/name/protocol/portname__address/port`; goes after `endpoint-`, `affinity-`. Colons are no identifier characters. */
export function endpointName(service: ServicePlan, port: PortPlan, endpoint: Endpoint): string {
  return bounded(`${portText(service, port)}__${endpoint.ip.replaceAll(":", ".")}/${endpoint.port}`);
}

function portText(service: ServicePlan, port: PortPlan): string {
  return `${service.namespace}/${service.name}/${port.protocol}/${port.portName}`;
}

/** The Service (`namespace/name`) that a chain or affinity set belongs to, or undefined for a fixed object. */
export function ownerOf(name: string): string | undefined {
  const match = /^(?:service|local|external|firewall|endpoint|affinity)-[A-Z2-7]{8}-([^/]+\/[^/]+)\//.exec(name);
  return match?.[1];
}

/** Whether a chain belongs to all Services with as many endpoints (compact layout). */
export function isShared(name: string): boolean {
  return /^(?:lb(?:-nodeport)?(?:-local)?|external(?:-local)?|nodeport(?:-local)?)-(?:tcp|udp|sctp)-\d+(?:-\d+)?$/.test(
    name,
  );
}
