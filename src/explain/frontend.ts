/** Which address of which Service port a packet knocks at. */
import type { Context } from "../model/context.ts";
import { isLoopback } from "../model/ip.ts";
import type { Plan, PortPlan, ServicePlan } from "../model/plan.ts";
import { type Destination, type Here, isLocal } from "./packet.ts";

export type FrontendKind = "cluster IP" | "external IP" | "load-balancer IP" | "node port";

export interface Frontend {
  readonly kind: FrontendKind;
  readonly service: ServicePlan;
  readonly port: PortPlan;
}

/** With the address that the packet has: node ports answer on many. */
export interface Knocked extends Frontend {
  readonly ip: string;
}

/** Addresses come before node ports, as in every mode's rules. `undefined`: no Service answers here. */
export function findFrontend(plan: Plan, context: Context, here: Here, to: Destination): Frontend | undefined {
  const nodePort = answersNodePorts(context, here, to.ip);
  let byNodePort: Frontend | undefined;
  for (const service of plan.services.values()) {
    for (const port of service.ports) {
      if (port.protocol !== to.protocol) continue;
      const kind = port.port === to.port ? addressKind(port, to.ip) : undefined;
      if (kind !== undefined) return { kind, service, port };
      if (nodePort && port.nodePort === to.port && port.nodePort !== 0)
        byNodePort ??= { kind: "node port", service, port };
    }
  }
  return byNodePort;
}

/** The Service port with this node port, wherever it answers. */
export function findNodePort(plan: Plan, to: Destination): Frontend | undefined {
  for (const service of plan.services.values())
    for (const port of service.ports)
      if (port.nodePort !== 0 && port.nodePort === to.port && port.protocol === to.protocol)
        return { kind: "node port", service, port };
  return undefined;
}

/** The Service whose health check node port this is. */
export function findHealthCheck(plan: Plan, port: number): ServicePlan | undefined {
  for (const service of plan.services.values()) if (service.healthCheck?.port === port) return service;
  return undefined;
}

/** The Service that has the address, on whatever port. */
export function ownerOfAddress(plan: Plan, ip: string): ServicePlan | undefined {
  for (const service of plan.services.values())
    if (service.ports.some((port) => addressKind(port, ip) !== undefined)) return service;
  return undefined;
}

export function isClusterIP(plan: Plan, ip: string): boolean {
  for (const service of plan.services.values()) if (service.ports.some((port) => port.clusterIP === ip)) return true;
  return false;
}

/** ipvs: the address is on the proxy's own device. Addresses that an interface of the node has stay there. */
export function isVirtual(plan: Plan, context: Context, ip: string): boolean {
  return !context.nodePorts.addresses.includes(ip) && ownerOfAddress(plan, ip) !== undefined;
}

/** iptables: node ports also answer on 127.0.0.1, with route_localnet. */
export function servesLocalhost({ mode, family, localhostNodePorts, nodePorts }: Context): boolean {
  return mode === "iptables" && family.name === "IPv4" && localhostNodePorts && (nodePorts.any || nodePorts.loopback);
}

/** Whether node ports answer on this address. */
export function answersNodePorts(context: Context, here: Here, ip: string): boolean {
  const { any, addresses } = context.nodePorts;
  if (context.mode === "ipvs" || !any)
    return addresses.includes(ip) || (servesLocalhost(context) && ip === "127.0.0.1");
  return isLoopback(ip) ? servesLocalhost(context) : isLocal(ip, here);
}

// --- internal ---

function addressKind(port: PortPlan, ip: string): FrontendKind | undefined {
  if (port.clusterIP === ip) return "cluster IP";
  if (port.loadBalancerIPs.includes(ip)) return "load-balancer IP";
  return port.externalIPs.includes(ip) ? "external IP" : undefined;
}
