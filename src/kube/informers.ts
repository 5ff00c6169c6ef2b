/** Starts the reflectors that kube-proxy needs on one store, and says when the first lists are complete. */
import { parseEndpointSlice } from "../model/endpoint-slice-parse.ts";
import type { Log } from "../model/log.ts";
import { parseNode, parseServiceCIDR } from "../model/node-parse.ts";
import { parseService } from "../model/service-parse.ts";
import { endpointSlices, oneNode, serviceCIDRs, services } from "./api-resource.ts";
import type { ObjectStore } from "./object-store.ts";
import { Reflector, type ReflectorOptions } from "./reflector.ts";
import type { Transport } from "./transport.ts";

export interface InformerOptions {
  readonly transport: Transport;
  readonly store: ObjectStore;
  readonly nodeName: string;
  /** Watch ServiceCIDRs (nftables mode). */
  readonly serviceCIDRs: boolean;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** For tests. */
  readonly timings?: ReflectorOptions<unknown>["timings"];
  readonly backOff?: ReflectorOptions<unknown>["backOff"];
}

export interface ObjectSource {
  /** Resolves when the store holds all of the first lists; never rejects. No rule may be written before. */
  readonly ready: Promise<void>;
  /** When each resource was last heard of, in milliseconds since the epoch (0: never). */
  contacts(): Readonly<Record<string, number>>;
  /** Resolves once everything has stopped after the signal was aborted. */
  readonly done: Promise<void>;
}

export function startInformers(options: InformerOptions): ObjectSource {
  const { transport, store, nodeName, log, signal, timings, backOff } = options;
  const common = { transport, log, ...(timings ? { timings } : {}), ...(backOff ? { backOff } : {}) };
  const reflectors = {
    services: new Reflector({ ...common, resource: services, parse: parseService, sink: store.services }),
    endpointslices: new Reflector({
      ...common,
      resource: endpointSlices,
      parse: parseEndpointSlice,
      sink: store.endpointSlices,
    }),
    nodes: new Reflector({ ...common, resource: oneNode(nodeName), parse: parseNode, sink: store.nodes }),
    ...(options.serviceCIDRs
      ? {
          servicecidrs: new Reflector({
            ...common,
            resource: serviceCIDRs,
            parse: parseServiceCIDR,
            sink: store.serviceCIDRs,
          }),
        }
      : {}),
  };
  const all = Object.entries(reflectors);
  return {
    ready: Promise.all(all.map(([, reflector]) => reflector.ready)).then(() => {}),
    contacts: () => Object.fromEntries(all.map(([name, reflector]) => [name, reflector.lastContact])),
    done: Promise.all(all.map(([, reflector]) => reflector.run(signal))).then(() => {}),
  };
}
