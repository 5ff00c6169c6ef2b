/** The effective configuration: KubeProxyConfiguration v1alpha1 with every default filled in. Immutable. */
import type { ProxyMode } from "../model/context.ts";

export const apiVersion = "kubeproxy.config.k8s.io/v1alpha1";
export const kind = "KubeProxyConfiguration";

/** Milliseconds; fractions down to a nanosecond are kept. Printed and read in Go's form (`1h0m0s`), see duration.ts. */
export type Duration = number;

export type LocalMode = "ClusterCIDR" | "NodeCIDR" | "BridgeInterface" | "InterfaceNamePrefix";

export interface ClientConnection {
  /** Path; empty: in-cluster, or --master. */
  readonly kubeconfig: string;
  readonly acceptContentTypes: string;
  readonly contentType: string;
  /** Requests a second; negative: no limit. */
  readonly qps: number;
  readonly burst: number;
}

export interface LogOutput {
  readonly splitStream: boolean;
  /** A Kubernetes quantity as written. */
  readonly infoBufferSize: string;
}

export interface VModuleRule {
  readonly filePattern: string;
  readonly verbosity: number;
}

export interface Logging {
  readonly format: "text" | "json";
  readonly flushFrequency: Duration;
  readonly verbosity: number;
  readonly vmodule: readonly VModuleRule[];
  readonly options: { readonly text: LogOutput; readonly json: LogOutput };
}

/** Periods are 0 in the sections of the modes not in use. */
export interface SyncPeriods {
  readonly syncPeriod: Duration;
  readonly minSyncPeriod: Duration;
}

export interface IptablesConfig extends SyncPeriods {
  /** Bit of the packet mark, 0–31. Used by ipvs mode too. */
  readonly masqueradeBit: number;
  readonly masqueradeAll: boolean;
  readonly localhostNodePorts: boolean;
}

export interface IpvsConfig extends SyncPeriods {
  /** Empty: rr. */
  readonly scheduler: string;
  readonly excludeCIDRs: readonly string[];
  readonly strictARP: boolean;
  /** 0: leave the kernel's value. */
  readonly tcpTimeout: Duration;
  readonly tcpFinTimeout: Duration;
  readonly udpTimeout: Duration;
}

export interface NftablesConfig extends SyncPeriods {
  readonly masqueradeBit: number;
  readonly masqueradeAll: boolean;
}

/** Windows only: read, kept and written back, otherwise unused. */
export interface WinkernelConfig {
  readonly networkName: string;
  readonly sourceVip: string;
  readonly enableDSR: boolean;
  readonly rootHnsEndpointName: string;
  readonly forwardHealthCheckVip: boolean;
}

export interface ConntrackConfig {
  /** Entries per CPU; 0: leave the kernel's limit. */
  readonly maxPerCore: number;
  readonly min: number;
  readonly tcpEstablishedTimeout: Duration;
  readonly tcpCloseWaitTimeout: Duration;
  readonly tcpBeLiberal: boolean;
  readonly udpTimeout: Duration;
  readonly udpStreamTimeout: Duration;
}

export interface Config {
  /** As given; what is not in it has its default (feature-gates.ts). */
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly clientConnection: ClientConnection;
  readonly logging: Logging;
  /** Empty: the machine's host name. */
  readonly hostnameOverride: string;
  readonly bindAddress: string;
  /** `ip:port`; empty: no server (only the flags can say so). */
  readonly healthzBindAddress: string;
  readonly metricsBindAddress: string;
  /** A port that is taken ends the process. */
  readonly bindAddressHardFail: boolean;
  readonly enableProfiling: boolean;
  readonly showHiddenMetricsForVersion: string;
  readonly mode: ProxyMode;
  readonly iptables: IptablesConfig;
  readonly ipvs: IpvsConfig;
  readonly nftables: NftablesConfig;
  readonly winkernel: WinkernelConfig;
  readonly detectLocalMode: LocalMode;
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string };
  /** Comma-separated, at most one CIDR a family. */
  readonly clusterCIDR: string;
  /** `primary`, `localhost`, `all` and CIDRs in any mix; empty: all addresses (iptables, ipvs). */
  readonly nodePortAddresses: readonly string[];
  readonly oomScoreAdj: number;
  readonly conntrack: ConntrackConfig;
  readonly configSyncPeriod: Duration;
  /** Unused since the userspace mode went; kept for the file's sake. */
  readonly portRange: string;
  readonly windowsRunAsService: boolean;
}

/** The periods of the mode in use. */
export function syncPeriods(config: Config): SyncPeriods {
  return config[config.mode];
}

/** masqueradeAll and the mark of the mode in use; ipvs takes those of iptables. */
export function masquerade(config: Config): { readonly all: boolean; readonly mark: number } {
  const section = config.mode === "nftables" ? config.nftables : config.iptables;
  return { all: section.masqueradeAll, mark: 2 ** section.masqueradeBit };
}

/** The CIDRs of `clusterCIDR`. */
export function clusterCIDRs(config: Config): readonly string[] {
  return config.clusterCIDR === "" ? [] : config.clusterCIDR.split(",").map((cidr) => cidr.trim());
}
