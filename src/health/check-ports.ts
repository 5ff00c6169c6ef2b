/** Health check node ports of one family: a listener per Service and node-port address, answering for its local endpoints. */
import type { NodePortAddresses } from "../model/context.ts";
import type { Family } from "../model/family.ts";
import { type HttpHandler, jsonAnswer, methodNotAllowedAnswer, respond } from "../model/http-answer.ts";
import type { Log } from "../model/log.ts";
import type { Plan } from "../model/plan.ts";
import { probeMethods } from "./server.ts";

export interface CheckTarget {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Ready local endpoints. */
  readonly localEndpoints: number;
}

export interface Closable {
  /** Stop listening and cut all connections at once. */
  close(): void;
}

export interface CheckPortsOptions {
  /** Listens; throws an Error with a one-line message when the address cannot be had. */
  readonly open: (address: string, port: number, handler: HttpHandler) => Closable;
  /** The proxy itself keeps its rules up to date. */
  readonly healthy: () => boolean;
  readonly log: Log;
}

export interface CheckPorts {
  /**
   * Make the listeners those of `desired` (by Service key) on `addresses` (literal addresses; the unspecified one is
   * all of its family). What cannot be opened is logged once and tried again at the next call.
   */
  update(desired: ReadonlyMap<string, CheckTarget>, addresses: readonly string[]): void;
  /** Open listeners, for status pages. */
  open(): readonly { readonly service: string; readonly address: string; readonly port: number }[];
  close(): void;
}

/** Where health check ports of a family listen: where its node ports answer. */
export function checkAddresses(family: Family, nodePorts: NodePortAddresses): readonly string[] {
  if (nodePorts.any) return [family.unspecified];
  const loopback = family.name === "IPv4" ? "127.0.0.1" : "::1";
  return nodePorts.loopback ? [...nodePorts.addresses, loopback] : nodePorts.addresses;
}

/** The Services of a plan that want a health check node port. */
export function checkTargets(plan: Plan): ReadonlyMap<string, CheckTarget> {
  const targets = new Map<string, CheckTarget>();
  for (const [key, { namespace, name, healthCheck }] of plan.services) {
    if (healthCheck) targets.set(key, { namespace, name, ...healthCheck });
  }
  return targets;
}

interface OpenPort {
  readonly service: string;
  readonly address: string;
  readonly port: number;
  readonly listener: Closable;
}

export function createCheckPorts(options: CheckPortsOptions): CheckPorts {
  let targets: ReadonlyMap<string, CheckTarget> = new Map();
  const opened = new Map<string, OpenPort>();
  const failed = new Map<string, string>();

  function closeStale(wanted: ReadonlyMap<string, Place>): void {
    for (const [id, { listener, service, address, port }] of opened) {
      if (wanted.has(id)) continue;
      listener.close();
      opened.delete(id);
      options.log.debug(2, "Closed health check node port", { service, address, port });
    }
    for (const id of failed.keys()) if (!wanted.has(id)) failed.delete(id);
  }

  function openMissing(id: string, { service, address, port }: Place): void {
    if (opened.has(id)) return;
    try {
      const handler = checkHandler(service, () => targets.get(service), options.healthy);
      opened.set(id, { service, address, port, listener: options.open(address, port, handler) });
      failed.delete(id);
      options.log.debug(2, "Opened health check node port", { service, address, port });
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      if (failed.get(id) === reason) return;
      failed.set(id, reason);
      options.log.error("Cannot open health check node port, load balancers will see this node as down; will retry", {
        service,
        address,
        port,
        reason,
      });
    }
  }

  return {
    update(desired, addresses) {
      targets = desired;
      const wanted = places(desired, addresses);
      // Closed before opened: a port may have moved from one Service to another.
      closeStale(wanted);
      for (const [id, place] of wanted) openMissing(id, place);
    },
    open: () => [...opened.values()].map(({ service, address, port }) => ({ service, address, port })),
    close() {
      targets = new Map();
      closeStale(new Map());
    },
  };
}

interface Place {
  readonly service: string;
  readonly address: string;
  readonly port: number;
}

function places(desired: ReadonlyMap<string, CheckTarget>, addresses: readonly string[]): ReadonlyMap<string, Place> {
  const wanted = new Map<string, Place>();
  for (const [service, { port }] of desired) {
    for (const address of addresses) wanted.set(`${service} ${address} ${port}`, { service, address, port });
  }
  return wanted;
}

/** Any path is answered. A Service that is gone answers 503 on a connection that outlives it (kubernetes#141272). */
function checkHandler(service: string, target: () => CheckTarget | undefined, healthy: () => boolean): HttpHandler {
  const slash = service.indexOf("/");
  const gone = { namespace: service.slice(0, slash), name: service.slice(slash + 1), localEndpoints: 0 };
  return (request) => {
    if (!probeMethods.has(request.method)) return respond(methodNotAllowedAnswer("GET, HEAD, OPTIONS"));
    const { namespace, name, localEndpoints } = target() ?? gone;
    const proxyHealthy = healthy();
    const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: proxyHealthy };
    return respond(
      jsonAnswer(localEndpoints > 0 && proxyHealthy ? 200 : 503, JSON.stringify(body, null, "\t"), {
        "X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
      }),
    );
  };
}
