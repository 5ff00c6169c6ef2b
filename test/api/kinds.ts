/** The resource kinds that the API server fixture knows, and how their URLs are built. */

export interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

export const resources: readonly Resource[] = [
  { apiVersion: "v1", kind: "Service", plural: "services", namespaced: true },
  { apiVersion: "v1", kind: "Node", plural: "nodes", namespaced: false },
  { apiVersion: "v1", kind: "Event", plural: "events", namespaced: true },
  { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", plural: "endpointslices", namespaced: true },
  { apiVersion: "networking.k8s.io/v1", kind: "ServiceCIDR", plural: "servicecidrs", namespaced: false },
  { apiVersion: "events.k8s.io/v1", kind: "Event", plural: "events", namespaced: true },
];

/** Where a request goes: a collection (name undefined) or one object. */
export interface Target {
  readonly resource: Resource;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
}

/** The target of a URL path, undefined when no such resource is served. */
export function targetOf(path: string): Target | undefined {
  const parts = path.split("/").filter((part) => part !== "");
  const core = parts[0] === "api";
  if (!core && parts[0] !== "apis") return undefined;
  const apiVersion = core ? parts[1] : `${parts[1]}/${parts[2]}`;
  let rest = parts.slice(core ? 2 : 3).map(decodeURIComponent);
  let namespace: string | undefined;
  if (rest[0] === "namespaces" && rest.length > 2) {
    namespace = rest[1];
    rest = rest.slice(2);
  }
  const resource = resources.find((one) => one.apiVersion === apiVersion && one.plural === rest[0]);
  if (resource === undefined || rest.length > 2) return undefined;
  return { resource, namespace, name: rest[1] };
}

/** The resource of an object by its kind; apiVersion decides between the two Event kinds. */
export function resourceOf(kind: string, apiVersion?: string): Resource {
  const found = resources.find(
    (one) => one.kind === kind && (apiVersion === undefined || one.apiVersion === apiVersion),
  );
  if (found === undefined) throw new Error(`the API server fixture has no kind ${apiVersion ?? ""} ${kind}`);
  return found;
}
