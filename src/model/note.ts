/** A remark about an odd API object: told once per object version, never stopping anything else. */

export interface Note {
  readonly kind: "Service" | "EndpointSlice" | "Node" | "ServiceCIDR";
  /** `namespace/name`. */
  readonly object: string;
  /** Field path as in the object, e.g. `spec.ports[0].port`; empty: the whole object. */
  readonly field: string;
  /** What is wrong, what was done about it. One line, already printable. */
  readonly message: string;
}

/** What a parser makes of one object: the value when anything of it is usable, and remarks. */
export interface Parsed<T> {
  readonly value: T | undefined;
  readonly notes: readonly Note[];
}
