/** What is wrong with a configuration: every fault at once, each with its field, place, value and what is allowed. */
import { familyOf, parseCIDR, parseIP } from "../model/ip.ts";
import { parseIPPort } from "./address.ts";
import { type Config, clusterCIDRs } from "./config.ts";
import { type Fault, fault } from "./config-error.ts";
import { localModes, modes } from "./defaults.ts";
import { printDuration } from "./duration.ts";
import { gateFault, gateOn } from "./feature-gates.ts";
import { placeOf, type Settings, textOf } from "./settings.ts";
import { validateLogging } from "./validate-logging.ts";

/** Values of showHiddenMetricsForVersion: the release before this one; 1.35 because 1.36 took it and files live on. */
const hiddenMetricsVersions = ["1.36", "1.35"];

export type Refuse = (field: string, value: unknown, message: string, hint?: string) => void;

/** `given` tells where each value was set, and holds what the types of Config cannot (an unknown mode). */
export function validateConfig(config: Config, given: Settings): readonly Fault[] {
  const faults: Fault[] = [];
  const refuse: Refuse = (field, value, message, hint) => {
    faults.push(fault(placeOf(given, field), field, value, message, hint));
  };
  validateGates(config, refuse);
  validateMode(config, given, refuse);
  validatePeriods(config, refuse);
  validateSections(config, refuse);
  validateConntrack(config, refuse);
  validateNumbers(config, refuse);
  validateServers(config, refuse);
  validateLocalDetection(config, given, refuse);
  validateNodePortAddresses(config, refuse);
  validateLogging(config, given, refuse);
  return faults;
}

function validateGates({ featureGates }: Config, refuse: Refuse): void {
  for (const [name, on] of Object.entries(featureGates)) {
    const message = gateFault(name, on);
    if (message !== undefined) refuse(`featureGates.${name}`, on, message);
  }
}

function validateMode(config: Config, given: Settings, refuse: Refuse): void {
  const mode = textOf(given, "mode");
  const hints: Readonly<Record<string, string>> = {
    userspace: "the userspace mode was removed in Kubernetes 1.26",
    kernelspace: "kernelspace is for Windows only",
  };
  if (mode !== "" && !modes.some((known) => known === mode)) {
    refuse("mode", mode, `must be one of ${modes.join(", ")}`, hints[mode]);
  }
  if (mode === "ipvs" && !gateOn(config, "KubeProxyIPVS")) {
    refuse("mode", mode, "is switched off by the feature gate KubeProxyIPVS", "set the gate to true, or use nftables");
  }
}

function validatePeriods(config: Config, refuse: Refuse): void {
  const { syncPeriod, minSyncPeriod } = config[config.mode];
  const field = `${config.mode}.syncPeriod`;
  if (syncPeriod <= 0) refuse(field, printDuration(syncPeriod), "must be greater than 0");
  else if (minSyncPeriod > syncPeriod) {
    refuse(field, printDuration(syncPeriod), `must not be shorter than minSyncPeriod, ${printDuration(minSyncPeriod)}`);
  }
  refuseNegative(refuse, `${config.mode}.minSyncPeriod`, minSyncPeriod);
  if (config.configSyncPeriod <= 0) {
    refuse("configSyncPeriod", printDuration(config.configSyncPeriod), "must be greater than 0");
  }
}

/** Sections of modes not in use are not judged, except iptables, whose mark ipvs uses too. */
function validateSections({ mode, iptables, ipvs, nftables }: Config, refuse: Refuse): void {
  refuseOutside(refuse, "iptables.masqueradeBit", iptables.masqueradeBit, 0, 31);
  if (mode === "nftables") refuseOutside(refuse, "nftables.masqueradeBit", nftables.masqueradeBit, 0, 31);
  if (mode !== "ipvs") return;
  for (const name of ["tcpTimeout", "tcpFinTimeout", "udpTimeout"] as const) {
    refuseNegative(refuse, `ipvs.${name}`, ipvs[name]);
  }
  ipvs.excludeCIDRs.forEach((cidr, index) => {
    if (parseCIDR(cidr) === undefined) refuse(`ipvs.excludeCIDRs[${index}]`, cidr, cidrWanted);
  });
}

function validateConntrack({ conntrack }: Config, refuse: Refuse): void {
  for (const name of ["maxPerCore", "min"] as const) {
    if (conntrack[name] < 0)
      refuse(`conntrack.${name}`, conntrack[name], "must not be negative (0: leave the kernel's)");
  }
  for (const name of ["tcpEstablishedTimeout", "tcpCloseWaitTimeout", "udpTimeout", "udpStreamTimeout"] as const) {
    refuseNegative(refuse, `conntrack.${name}`, conntrack[name]);
  }
}

function validateNumbers(config: Config, refuse: Refuse): void {
  const { oomScoreAdj, clientConnection, showHiddenMetricsForVersion: version } = config;
  refuseOutside(refuse, "oomScoreAdj", oomScoreAdj, -1000, 1000);
  if (clientConnection.burst < 0) refuse("clientConnection.burst", clientConnection.burst, "must not be negative");
  if (version !== "" && !hiddenMetricsVersions.includes(version)) {
    refuse("showHiddenMetricsForVersion", version, `must be empty or ${hiddenMetricsVersions.join(" or ")}`);
  }
}

function validateServers(config: Config, refuse: Refuse): void {
  if (parseIP(config.bindAddress) === undefined) {
    refuse("bindAddress", config.bindAddress, "must be an IP address, such as 0.0.0.0 or ::");
  }
  for (const name of ["healthzBindAddress", "metricsBindAddress"] as const) {
    if (config[name] !== "" && parseIPPort(config[name]) === undefined) {
      refuse(name, config[name], "must be an IP address and a port, such as 0.0.0.0:10256 or [::]:10256");
    }
  }
}

function validateLocalDetection(config: Config, given: Settings, refuse: Refuse): void {
  const mode = textOf(given, "detectLocalMode");
  if (mode !== "" && !localModes.some((known) => known === mode)) {
    refuse("detectLocalMode", mode, `must be one of ${localModes.join(", ")}`);
  }
  const { bridgeInterface, interfaceNamePrefix } = config.detectLocal;
  if (config.detectLocalMode === "BridgeInterface" && bridgeInterface === "") {
    refuse("detectLocal.bridgeInterface", "", "must name the pods' bridge when detectLocalMode is BridgeInterface");
  }
  if (config.detectLocalMode === "InterfaceNamePrefix" && interfaceNamePrefix === "") {
    refuse("detectLocal.interfaceNamePrefix", "", "must be set when detectLocalMode is InterfaceNamePrefix");
  }
  refuseUnprintable(refuse, "detectLocal.bridgeInterface", bridgeInterface);
  refuseUnprintable(refuse, "detectLocal.interfaceNamePrefix", interfaceNamePrefix);
  validateClusterCIDR(config, refuse);
}

function validateClusterCIDR(config: Config, refuse: Refuse): void {
  const given = clusterCIDRs(config);
  const cidrs = given.map(parseCIDR);
  cidrs.forEach((cidr, index) => {
    if (cidr === undefined) refuse(`clusterCIDR[${index}]`, given[index], cidrWanted);
  });
  const known = cidrs.filter((cidr) => cidr !== undefined).map(familyOf);
  if (given.length > 2 || new Set(known).size < known.length) {
    refuse("clusterCIDR", config.clusterCIDR, "must hold at most one CIDR of each IP family, separated by a comma");
  }
}

function validateNodePortAddresses({ nodePortAddresses }: Config, refuse: Refuse): void {
  nodePortAddresses.forEach((address, index) => {
    if (["primary", "localhost", "all"].includes(address) || parseCIDR(address) !== undefined) return;
    const host = parseIP(address);
    const hint = host === undefined ? "" : `for one address write ${host}/${host.includes(":") ? 128 : 32}`;
    refuse(`nodePortAddresses[${index}]`, address, "must be primary, localhost, all or a CIDR", hint);
  });
}

const cidrWanted = "must be a CIDR such as 10.244.0.0/16 or fd00:10:244::/56";

function refuseNegative(refuse: Refuse, field: string, duration: number): void {
  if (duration < 0) refuse(field, printDuration(duration), "must not be negative");
}

function refuseOutside(refuse: Refuse, field: string, value: number, min: number, max: number): void {
  if (value < min || value > max) refuse(field, value, `must be ${min} to ${max}`);
}

/** Interface names reach rules: no blanks, slashes, control or quote characters, as in the kernel's own check and ours. */
function refuseUnprintable(refuse: Refuse, field: string, name: string): void {
  if (name !== "" && !/^[^\s/:"'\\\p{Cc}]+$/u.test(name)) {
    refuse(field, name, "must be an interface name: no blanks, slashes, colons, quotes or backslashes");
  }
}
