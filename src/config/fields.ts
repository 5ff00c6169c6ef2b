/** The shape of KubeProxyConfiguration v1alpha1: every field and the kind of value it takes, in the order of its JSON. */

export type FieldKind =
  | "text"
  | "bool"
  | "int"
  | "float"
  | "duration"
  /** A duration that may also be a number of nanoseconds. */
  | "flush"
  | "quantity"
  | "texts"
  | "gates"
  | "vmodule";

export type Shape = FieldKind | Section;
export interface Section {
  readonly [name: string]: Shape;
}

const logOutput: Section = { splitStream: "bool", infoBufferSize: "quantity" };
const periods: Section = { syncPeriod: "duration", minSyncPeriod: "duration" };

export const fields: Section = {
  kind: "text",
  apiVersion: "text",
  featureGates: "gates",
  clientConnection: {
    kubeconfig: "text",
    acceptContentTypes: "text",
    contentType: "text",
    qps: "float",
    burst: "int",
  },
  logging: {
    format: "text",
    flushFrequency: "flush",
    verbosity: "int",
    vmodule: "vmodule",
    options: { text: logOutput, json: logOutput },
  },
  hostnameOverride: "text",
  bindAddress: "text",
  healthzBindAddress: "text",
  metricsBindAddress: "text",
  bindAddressHardFail: "bool",
  enableProfiling: "bool",
  showHiddenMetricsForVersion: "text",
  mode: "text",
  iptables: { masqueradeBit: "int", masqueradeAll: "bool", localhostNodePorts: "bool", ...periods },
  ipvs: {
    ...periods,
    scheduler: "text",
    excludeCIDRs: "texts",
    strictARP: "bool",
    tcpTimeout: "duration",
    tcpFinTimeout: "duration",
    udpTimeout: "duration",
  },
  nftables: { masqueradeBit: "int", masqueradeAll: "bool", ...periods },
  winkernel: {
    networkName: "text",
    sourceVip: "text",
    enableDSR: "bool",
    rootHnsEndpointName: "text",
    forwardHealthCheckVip: "bool",
  },
  detectLocalMode: "text",
  detectLocal: { bridgeInterface: "text", interfaceNamePrefix: "text" },
  clusterCIDR: "text",
  nodePortAddresses: "texts",
  oomScoreAdj: "int",
  conntrack: {
    maxPerCore: "int",
    min: "int",
    tcpEstablishedTimeout: "duration",
    tcpCloseWaitTimeout: "duration",
    tcpBeLiberal: "bool",
    udpTimeout: "duration",
    udpStreamTimeout: "duration",
  },
  configSyncPeriod: "duration",
  portRange: "text",
  windowsRunAsService: "bool",
};

/** The names of a section's fields nearest to a mistyped one, for a hint. */
export function nearestField(section: Section, name: string): string | undefined {
  const lower = name.toLowerCase();
  return Object.keys(section).find((known) => known.toLowerCase() === lower || `${known.toLowerCase()}s` === lower);
}
