/** An EndpointSlice as the rules need it: canonical, trimmed, immutable. `parseEndpointSlice` makes it from API JSON. */
import type { FamilyName } from "./family.ts";
import type { Protocol } from "./service.ts";

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
}

export interface SliceEndpoint {
  readonly ip: string;
  /** Empty when the slice does not say. */
  readonly nodeName: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly zoneHints: readonly string[];
  readonly nodeHints: readonly string[];
}

export interface EndpointSlice {
  readonly namespace: string;
  readonly name: string;
  /** `namespace/name` of the Service it belongs to. */
  readonly serviceKey: string;
  readonly family: FamilyName;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly SliceEndpoint[];
  /** `endpoints.kubernetes.io/last-change-trigger-time` in milliseconds since the epoch; 0: absent. */
  readonly lastChange: number;
}
