/** The flags about rules: local traffic, node ports, the modes, connection tracking. Part of the table in flags.ts. */
import { type FlagTable, flag } from "./flag.ts";

const detection = "Local traffic";
const nodePorts = "Rules";
const iptables = "iptables mode (sync periods also in nftables mode)";
const ipvs = "ipvs mode";
const conntrack = "Connection tracking";

export const ruleFlags: FlagTable = [
  flag(
    detection,
    "detect-local-mode",
    "LocalMode",
    "How traffic of pods of this node is told from other traffic; empty: ClusterCIDR.",
    {
      field: "detectLocalMode",
    },
  ),
  flag(detection, "cluster-cidr", "string", "Range of pod addresses, one CIDR of each IP family, comma-separated.", {
    field: "clusterCIDR",
    placeholder: "CIDRs",
  }),
  flag(detection, "pod-bridge-interface", "string", "Bridge of the pods, for BridgeInterface.", {
    field: "detectLocal.bridgeInterface",
    placeholder: "name",
  }),
  flag(
    detection,
    "pod-interface-name-prefix",
    "string",
    "What the names of pod interfaces begin with, for InterfaceNamePrefix.",
    {
      field: "detectLocal.interfaceNamePrefix",
      placeholder: "prefix",
    },
  ),

  flag(nodePorts, "bind-address", "ip", "Address whose family decides the primary IP family when the Node does not.", {
    default: "0.0.0.0",
    field: "bindAddress",
  }),
  flag(
    nodePorts,
    "nodeport-addresses",
    "strings",
    "Where node ports answer: primary, localhost, all and CIDRs; empty: everywhere (nftables: primary).",
    {
      field: "nodePortAddresses",
    },
  ),
  flag(nodePorts, "masquerade-all", "bool", "Rewrite the source of all traffic to cluster IPs.", {
    field: "iptables.masqueradeAll",
    alsoNftables: true,
  }),

  flag(iptables, "iptables-sync-period", "duration", "How often rules are checked at least; above 0.", {
    default: "30s",
    field: "iptables.syncPeriod",
    alsoNftables: true,
  }),
  flag(iptables, "iptables-min-sync-period", "duration", "Shortest time between two syncs; 0: none.", {
    default: "1s",
    field: "iptables.minSyncPeriod",
    alsoNftables: true,
  }),
  flag(iptables, "iptables-masquerade-bit", "int32", "Bit of the packet mark for traffic to masquerade, 0 to 31.", {
    default: "14",
    field: "iptables.masqueradeBit",
  }),
  flag(iptables, "iptables-localhost-nodeports", "bool", "Node ports answer on 127.0.0.1 too (IPv4).", {
    default: "true",
    field: "iptables.localhostNodePorts",
  }),

  flag(ipvs, "ipvs-scheduler", "string", "Scheduler of virtual servers; empty: rr.", { field: "ipvs.scheduler" }),
  flag(ipvs, "ipvs-exclude-cidrs", "strings", "Ranges whose virtual servers are left alone when cleaning up.", {
    field: "ipvs.excludeCIDRs",
    placeholder: "CIDRs",
  }),
  flag(ipvs, "ipvs-strict-arp", "bool", "Set arp_ignore to 1 and arp_announce to 2.", { field: "ipvs.strictARP" }),
  flag(ipvs, "ipvs-sync-period", "duration", "How often rules are checked at least; above 0.", {
    default: "30s",
    field: "ipvs.syncPeriod",
  }),
  flag(ipvs, "ipvs-min-sync-period", "duration", "Shortest time between two syncs; 0: none.", {
    default: "1s",
    field: "ipvs.minSyncPeriod",
  }),
  flag(ipvs, "ipvs-tcp-timeout", "duration", "Timeout of idle TCP connections; 0: leave.", {
    field: "ipvs.tcpTimeout",
  }),
  flag(ipvs, "ipvs-tcpfin-timeout", "duration", "Timeout of TCP connections after a FIN; 0: leave.", {
    field: "ipvs.tcpFinTimeout",
  }),
  flag(ipvs, "ipvs-udp-timeout", "duration", "Timeout of UDP flows; 0: leave.", { field: "ipvs.udpTimeout" }),

  flag(
    conntrack,
    "conntrack-max-per-core",
    "int32",
    "Connections to track per CPU; 0: leave the limit, ignoring --conntrack-min.",
    {
      default: "32768",
      field: "conntrack.maxPerCore",
    },
  ),
  flag(conntrack, "conntrack-min", "int32", "Connections to track at least, whatever --conntrack-max-per-core gives.", {
    default: "131072",
    field: "conntrack.min",
  }),
  flag(
    conntrack,
    "conntrack-tcp-timeout-established",
    "duration",
    "Timeout of established TCP connections; 0: leave.",
    {
      default: "24h0m0s",
      field: "conntrack.tcpEstablishedTimeout",
    },
  ),
  flag(
    conntrack,
    "conntrack-tcp-timeout-close-wait",
    "duration",
    "Timeout of TCP connections in CLOSE_WAIT; 0: leave.",
    {
      default: "1h0m0s",
      field: "conntrack.tcpCloseWaitTimeout",
    },
  ),
  flag(conntrack, "conntrack-tcp-be-liberal", "bool", "Accept TCP packets outside the window.", {
    field: "conntrack.tcpBeLiberal",
  }),
  flag(conntrack, "conntrack-udp-timeout", "duration", "Timeout of UDP flows without an answer; 0: leave.", {
    field: "conntrack.udpTimeout",
  }),
  flag(conntrack, "conntrack-udp-timeout-stream", "duration", "Timeout of UDP flows with answers; 0: leave.", {
    field: "conntrack.udpStreamTimeout",
  }),
];
