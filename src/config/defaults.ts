/** From the values that were given to a whole Config: fills in every default. Faults are validate.ts's business. */
import type { ProxyMode } from "../model/context.ts";
import { familyOf, parseIP } from "../model/ip.ts";
import type { Config, ConntrackConfig, LocalMode, Logging, SyncPeriods } from "./config.ts";
import { boolOf, gatesOf, nonZeroOf, numberOf, type Settings, textOf, textsOf, vmoduleOf } from "./settings.ts";

const seconds = 1000;
const minutes = 60 * seconds;
const hours = 60 * minutes;

export const modes: readonly ProxyMode[] = ["iptables", "ipvs", "nftables"];
export const localModes: readonly LocalMode[] = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"];
export const logFormats = ["text", "json"] as const;

/** Never fails: a value that validate.ts will refuse is replaced by the default where the type demands it. */
export function makeConfig(given: Settings): Config {
  const mode = modes.find((name) => name === textOf(given, "mode")) ?? "iptables";
  const bindAddress = textOf(given, "bindAddress") || "0.0.0.0";
  return {
    featureGates: gatesOf(given, "featureGates"),
    clientConnection: {
      kubeconfig: textOf(given, "clientConnection.kubeconfig"),
      acceptContentTypes: textOf(given, "clientConnection.acceptContentTypes"),
      contentType: textOf(given, "clientConnection.contentType", "application/vnd.kubernetes.protobuf"),
      qps: nonZeroOf(given, "clientConnection.qps", 5),
      burst: nonZeroOf(given, "clientConnection.burst", 10),
    },
    logging: makeLogging(given),
    hostnameOverride: textOf(given, "hostnameOverride"),
    bindAddress,
    ...serverAddresses(given, bindAddress),
    bindAddressHardFail: boolOf(given, "bindAddressHardFail"),
    enableProfiling: boolOf(given, "enableProfiling"),
    showHiddenMetricsForVersion: textOf(given, "showHiddenMetricsForVersion"),
    mode,
    ...makeModes(given, mode),
    winkernel: {
      networkName: textOf(given, "winkernel.networkName"),
      sourceVip: textOf(given, "winkernel.sourceVip"),
      enableDSR: boolOf(given, "winkernel.enableDSR"),
      rootHnsEndpointName: textOf(given, "winkernel.rootHnsEndpointName"),
      forwardHealthCheckVip: boolOf(given, "winkernel.forwardHealthCheckVip"),
    },
    detectLocalMode: localModes.find((name) => name === textOf(given, "detectLocalMode")) ?? "ClusterCIDR",
    detectLocal: {
      bridgeInterface: textOf(given, "detectLocal.bridgeInterface"),
      interfaceNamePrefix: textOf(given, "detectLocal.interfaceNamePrefix"),
    },
    clusterCIDR: textOf(given, "clusterCIDR"),
    nodePortAddresses: nodePortAddresses(given, mode),
    oomScoreAdj: numberOf(given, "oomScoreAdj", -999),
    conntrack: makeConntrack(given),
    configSyncPeriod: nonZeroOf(given, "configSyncPeriod", 15 * minutes),
    portRange: textOf(given, "portRange"),
    windowsRunAsService: boolOf(given, "windowsRunAsService"),
  };
}

/** In a file, an IPv6 bind address moves both servers to IPv6; the flags' defaults are fixed. */
function serverAddresses(given: Settings, bindAddress: string) {
  const ip = parseIP(bindAddress);
  const v6 = given.source === "file" && ip !== undefined && familyOf(ip) === "IPv6";
  return {
    healthzBindAddress: textOf(given, "healthzBindAddress", v6 ? "[::]:10256" : "0.0.0.0:10256"),
    metricsBindAddress: textOf(given, "metricsBindAddress", v6 ? "[::1]:10249" : "127.0.0.1:10249"),
  };
}

function makeModes(given: Settings, mode: ProxyMode): Pick<Config, ProxyMode> {
  return {
    iptables: {
      masqueradeBit: numberOf(given, "iptables.masqueradeBit", 14),
      masqueradeAll: boolOf(given, "iptables.masqueradeAll"),
      localhostNodePorts: boolOf(given, "iptables.localhostNodePorts", true),
      ...periodsOf(given, "iptables", mode),
    },
    ipvs: {
      ...periodsOf(given, "ipvs", mode),
      scheduler: textOf(given, "ipvs.scheduler"),
      excludeCIDRs: textsOf(given, "ipvs.excludeCIDRs"),
      strictARP: boolOf(given, "ipvs.strictARP"),
      tcpTimeout: numberOf(given, "ipvs.tcpTimeout"),
      tcpFinTimeout: numberOf(given, "ipvs.tcpFinTimeout"),
      udpTimeout: numberOf(given, "ipvs.udpTimeout"),
    },
    nftables: {
      masqueradeBit: numberOf(given, "nftables.masqueradeBit", 14),
      masqueradeAll: boolOf(given, "nftables.masqueradeAll"),
      ...periodsOf(given, "nftables", mode),
    },
  };
}

/** Periods count only in the mode in use (elsewhere 0). ipvs in a file has no default distance between syncs. */
function periodsOf(given: Settings, section: ProxyMode, mode: ProxyMode): SyncPeriods {
  if (section !== mode) return { syncPeriod: 0, minSyncPeriod: 0 };
  const distance = section === "ipvs" && given.source === "file" ? 0 : seconds;
  return {
    syncPeriod: nonZeroOf(given, `${section}.syncPeriod`, 30 * seconds),
    minSyncPeriod: nonZeroOf(given, `${section}.minSyncPeriod`, distance),
  };
}

function nodePortAddresses(given: Settings, mode: ProxyMode): readonly string[] {
  const addresses = textsOf(given, "nodePortAddresses");
  return addresses.length === 0 && mode === "nftables" ? ["primary"] : addresses;
}

function makeConntrack(given: Settings): ConntrackConfig {
  return {
    maxPerCore: numberOf(given, "conntrack.maxPerCore", 32768),
    min: numberOf(given, "conntrack.min", 131072),
    tcpEstablishedTimeout: numberOf(given, "conntrack.tcpEstablishedTimeout", 24 * hours),
    tcpCloseWaitTimeout: numberOf(given, "conntrack.tcpCloseWaitTimeout", hours),
    tcpBeLiberal: boolOf(given, "conntrack.tcpBeLiberal"),
    udpTimeout: numberOf(given, "conntrack.udpTimeout"),
    udpStreamTimeout: numberOf(given, "conntrack.udpStreamTimeout"),
  };
}

function makeLogging(given: Settings): Logging {
  return {
    format: logFormats.find((name) => name === textOf(given, "logging.format")) ?? "text",
    flushFrequency: nonZeroOf(given, "logging.flushFrequency", 5 * seconds),
    verbosity: numberOf(given, "logging.verbosity"),
    vmodule: vmoduleOf(given, "logging.vmodule"),
    options: { text: logOutput(given, "logging.options.text"), json: logOutput(given, "logging.options.json") },
  };
}

function logOutput(given: Settings, section: string) {
  return {
    splitStream: boolOf(given, `${section}.splitStream`),
    infoBufferSize: textOf(given, `${section}.infoBufferSize`) || "0",
  };
}
