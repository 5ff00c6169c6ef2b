/** The proxy configurations that rows run under, as KubeProxyConfiguration objects. Pure. */
import { bridgeName, clusterCIDR, nodeName, nodeNetwork } from "../lab/topology.ts";
import type { Mode, Setting } from "./row.ts";

export interface RunOptions {
  readonly mode: Mode;
  /** nftables: the layout without anonymous maps. */
  readonly compact: boolean;
  readonly kubeconfig: string;
}

type Fields = Readonly<Record<string, unknown>>;

const both = `${clusterCIDR.IPv4},${clusterCIDR.IPv6}`;

const overlays: Readonly<Record<Setting, (section: string) => Fields>> = {
  plain: () => ({}),
  "one-network": () => ({ nodePortAddresses: [nodeNetwork.IPv4, nodeNetwork.IPv6] }),
  "all-addresses": () => ({ nodePortAddresses: ["0.0.0.0/0", "::/0"] }),
  "masquerade-all": (section) => ({ [section]: { masqueradeAll: true } }),
  "no-localhost": () => ({ iptables: { localhostNodePorts: false } }),
  "localhost-gate": () => ({
    nodePortAddresses: ["primary", "localhost"],
    featureGates: { KubeProxyNFTablesLocalhostNodePorts: true },
  }),
  "node-cidr": () => ({ detectLocalMode: "NodeCIDR" }),
  bridge: () => ({ detectLocalMode: "BridgeInterface", detectLocal: { bridgeInterface: bridgeName } }),
  prefix: () => ({
    detectLocalMode: "InterfaceNamePrefix",
    detectLocal: { interfaceNamePrefix: bridgeName.slice(0, 3) },
  }),
  "no-detection": () => ({ clusterCIDR: "" }),
};

/** The kube-proxy mode behind a mode of the table. */
export function proxyMode(mode: Mode): "iptables" | "nftables" | "ipvs" {
  return mode === "nftables" || mode === "ipvs" ? mode : "iptables";
}

export function configuration(setting: Setting, options: RunOptions): Fields {
  const mode = proxyMode(options.mode);
  // ipvs reads the masquerade fields of iptables.
  const overlay = overlays[setting](mode === "nftables" ? "nftables" : "iptables");
  const section = (name: string, own: Fields = {}): Fields => ({
    [name]: { minSyncPeriod: "50ms", syncPeriod: "30s", ...own, ...(overlay[name] as Fields | undefined) },
  });
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode,
    hostnameOverride: nodeName,
    clientConnection: { kubeconfig: options.kubeconfig, contentType: "application/json" },
    clusterCIDR: both,
    conntrack: { maxPerCore: 0, min: 0 },
    ...overlay,
    featureGates: {
      ...(options.compact ? { KubeProxyNFTablesCompact: true } : {}),
      ...(overlay["featureGates"] as Fields | undefined),
    },
    ...section("iptables"),
    ...section("nftables"),
    // Affinity of UDP ends only after its flows: let those end soon.
    ...section("ipvs", { udpTimeout: "1s" }),
  };
}
