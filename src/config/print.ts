/** The effective configuration as JSON (the order of /configz), as YAML (sorted keys, `--write-config-to`), and compared. */
import { apiVersion, type Config, kind, type LogOutput, type SyncPeriods } from "./config.ts";
import { printDuration } from "./duration.ts";

type Printable = string | number | boolean | null | readonly Printable[] | PrintableObject;
interface PrintableObject {
  readonly [name: string]: Printable;
}

/** The whole configuration as plain data, in the order of the type's JSON. */
export function configObject(config: Config): PrintableObject {
  const { clientConnection, winkernel, conntrack, detectLocal, iptables, ipvs, nftables } = config;
  return {
    kind,
    apiVersion,
    ...(Object.keys(config.featureGates).length > 0 ? { featureGates: sortKeys(config.featureGates) } : {}),
    clientConnection: { ...clientConnection },
    logging: loggingObject(config),
    hostnameOverride: config.hostnameOverride,
    bindAddress: config.bindAddress,
    healthzBindAddress: config.healthzBindAddress,
    metricsBindAddress: config.metricsBindAddress,
    bindAddressHardFail: config.bindAddressHardFail,
    enableProfiling: config.enableProfiling,
    showHiddenMetricsForVersion: config.showHiddenMetricsForVersion,
    mode: config.mode,
    iptables: {
      masqueradeBit: iptables.masqueradeBit,
      masqueradeAll: iptables.masqueradeAll,
      localhostNodePorts: iptables.localhostNodePorts,
      ...periods(iptables),
    },
    ipvs: {
      ...periods(ipvs),
      scheduler: ipvs.scheduler,
      excludeCIDRs: listOrNull(ipvs.excludeCIDRs),
      strictARP: ipvs.strictARP,
      tcpTimeout: printDuration(ipvs.tcpTimeout),
      tcpFinTimeout: printDuration(ipvs.tcpFinTimeout),
      udpTimeout: printDuration(ipvs.udpTimeout),
    },
    nftables: {
      masqueradeBit: nftables.masqueradeBit,
      masqueradeAll: nftables.masqueradeAll,
      ...periods(nftables),
    },
    winkernel: { ...winkernel },
    detectLocalMode: config.detectLocalMode,
    detectLocal: { ...detectLocal },
    clusterCIDR: config.clusterCIDR,
    nodePortAddresses: listOrNull(config.nodePortAddresses),
    oomScoreAdj: config.oomScoreAdj,
    conntrack: {
      maxPerCore: conntrack.maxPerCore,
      min: conntrack.min,
      tcpEstablishedTimeout: printDuration(conntrack.tcpEstablishedTimeout),
      tcpCloseWaitTimeout: printDuration(conntrack.tcpCloseWaitTimeout),
      tcpBeLiberal: conntrack.tcpBeLiberal,
      udpTimeout: printDuration(conntrack.udpTimeout),
      udpStreamTimeout: printDuration(conntrack.udpStreamTimeout),
    },
    configSyncPeriod: printDuration(config.configSyncPeriod),
    portRange: config.portRange,
    ...(config.windowsRunAsService ? { windowsRunAsService: true } : {}),
  };
}

/** The body of /configz: one line. */
export function printConfigz(config: Config): string {
  return JSON.stringify({ "kubeproxy.config.k8s.io": configObject(config) });
}

/** YAML with sorted keys, as `--write-config-to` writes it; reading it back gives the same configuration. */
export function printConfig(config: Config): string {
  return printYaml(configObject(config), "").join("\n").concat("\n");
}

/** Whether two configurations make the proxy do the same; the order of lists of addresses does not matter. */
export function sameMeaning(a: Config, b: Config): boolean {
  return meaning(a) === meaning(b);
}

function meaning(config: Config): string {
  const clusterCIDR = config.clusterCIDR.split(",").map((cidr) => cidr.trim());
  return JSON.stringify(
    configObject({
      ...config,
      clusterCIDR: clusterCIDR.toSorted().join(","),
      nodePortAddresses: [...new Set(config.nodePortAddresses)].sort(),
      ipvs: { ...config.ipvs, excludeCIDRs: [...new Set(config.ipvs.excludeCIDRs)].sort() },
    }),
  );
}

function loggingObject({ logging }: Config): PrintableObject {
  return {
    format: logging.format,
    flushFrequency: printDuration(logging.flushFrequency),
    verbosity: logging.verbosity,
    ...(logging.vmodule.length > 0 ? { vmodule: logging.vmodule.map((rule) => ({ ...rule })) } : {}),
    options: { text: logOutput(logging.options.text), json: logOutput(logging.options.json) },
  };
}

function logOutput(output: LogOutput): PrintableObject {
  return { ...(output.splitStream ? { splitStream: true } : {}), infoBufferSize: output.infoBufferSize };
}

function periods({ syncPeriod, minSyncPeriod }: SyncPeriods): PrintableObject {
  return { syncPeriod: printDuration(syncPeriod), minSyncPeriod: printDuration(minSyncPeriod) };
}

function listOrNull(list: readonly string[]): readonly string[] | null {
  return list.length === 0 ? null : list;
}

function sortKeys<T>(record: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Block YAML of our own shapes: objects with plain keys, lists of scalars or flat objects. */
function printYaml(object: PrintableObject, indent: string): readonly string[] {
  return Object.entries(sortKeys(object)).flatMap(([name, value]) => {
    if (Array.isArray(value)) return [`${indent}${name}:`, ...value.flatMap((item) => printItem(item, indent))];
    if (isObject(value)) return [`${indent}${name}:`, ...printYaml(value, `${indent}  `)];
    return [`${indent}${name}: ${printScalar(value)}`];
  });
}

function printItem(item: Printable, indent: string): readonly string[] {
  if (!isObject(item)) return [`${indent}- ${printScalar(item)}`];
  const [first = "", ...rest] = printYaml(item, "");
  return [`${indent}- ${first}`, ...rest.map((line) => `${indent}  ${line}`)];
}

function isObject(value: Printable): value is PrintableObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Text goes in double quotes unless nothing could take it for anything else (`::` and `1.35` could be). */
function printScalar(value: Printable): string {
  if (typeof value !== "string") return JSON.stringify(value);
  const plain = /^[A-Za-z/][A-Za-z0-9./_-]*$/.test(value) && !/^(y|n|yes|no|on|off|true|false|null)$/i.test(value);
  const measure = /^\d[\d.]*(h|m|s|ms|µs|ns)([\dhms.]*s)?$|^\d+\.\d+\.\d+\.\d+(:\d+|\/\d+)?$/.test(value);
  return plain || measure ? value : JSON.stringify(value);
}
