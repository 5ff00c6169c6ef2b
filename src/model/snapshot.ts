/** Everything that the API says about this cluster at one moment; unchanged entries keep their identity. */
import type { EndpointSlice } from "./endpoint-slice.ts";
import type { NodeInfo } from "./node.ts";
import type { Service } from "./service.ts";

/** One Service and its slices. A new object whenever the Service or any of its slices changed, the same one otherwise. */
export interface ServiceInput {
  readonly service: Service;
  /** Sorted by name. */
  readonly slices: readonly EndpointSlice[];
}

export interface Snapshot {
  /** By Service key; headless and ExternalName Services are not in it. */
  readonly services: ReadonlyMap<string, ServiceInput>;
  readonly node: NodeInfo | undefined;
  /** Canonical CIDRs of all ServiceCIDR objects, sorted. */
  readonly serviceCIDRs: readonly string[];
}
