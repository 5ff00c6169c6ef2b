/** The API resources that are listed and watched, with the selectors that kube-proxy sends. */

export interface ApiResource {
  /** As RBAC and messages name it: `services`, `endpointslices.discovery.k8s.io`. */
  readonly name: string;
  readonly path: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  /** The API group may be missing from the cluster: then there are no objects. */
  readonly optional?: boolean;
}

/** Headless Services have no cluster IP to serve; labelled ones have another proxy (KEP-2447). */
export const services: ApiResource = {
  name: "services",
  path: "/api/v1/services",
  labelSelector: "!service.kubernetes.io/service-proxy-name",
  fieldSelector: "spec.clusterIP!=None",
};

export const endpointSlices: ApiResource = {
  name: "endpointslices.discovery.k8s.io",
  path: "/apis/discovery.k8s.io/v1/endpointslices",
  labelSelector: "!service.kubernetes.io/headless",
};

export function oneNode(name: string): ApiResource {
  return { name: "nodes", path: "/api/v1/nodes", fieldSelector: `metadata.name=${name}` };
}

export const serviceCIDRs: ApiResource = {
  name: "servicecidrs.networking.k8s.io",
  path: "/apis/networking.k8s.io/v1/servicecidrs",
  optional: true,
};

/** Path and query of a LIST or WATCH; empty parameters are left out. */
export function collectionPath(resource: ApiResource, parameters: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams();
  if (resource.labelSelector !== undefined) query.set("labelSelector", resource.labelSelector);
  if (resource.fieldSelector !== undefined) query.set("fieldSelector", resource.fieldSelector);
  for (const [name, value] of Object.entries(parameters)) if (value !== "") query.set(name, value);
  const text = query.toString();
  return text === "" ? resource.path : `${resource.path}?${text}`;
}
