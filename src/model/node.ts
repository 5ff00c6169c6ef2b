/** The Node object of this machine as far as the proxy reads it. */

export interface NodeInfo {
  readonly name: string;
  readonly uid: string;
  /** InternalIP addresses in order, then ExternalIP ones; canonical. */
  readonly addresses: readonly string[];
  readonly podCIDRs: readonly string[];
  /** `topology.kubernetes.io/zone`; empty: none. */
  readonly zone: string;
  /** A deletionTimestamp is set. */
  readonly deleting: boolean;
  /** Has the taint ToBeDeletedByClusterAutoscaler. */
  readonly toBeDeleted: boolean;
}
