/** Every flag of the proxy: one table for parsing, help, /flagz and the configuration. */
import { type FlagTable, flag } from "./flag.ts";
import { ruleFlags } from "./flags-rules.ts";

const api = "API server";
const general = "General";
const serving = "Health, metrics, debugging";
const logs = "Logging";
const extra = "Beyond kube-proxy";

export const flags: FlagTable = [
  flag(
    general,
    "config",
    "string",
    "Configuration file. Its values win over flags, except --hostname-override and logging.",
    {
      placeholder: "file",
    },
  ),
  flag(general, "write-config-to", "string", "Write the effective configuration to this file and exit.", {
    placeholder: "file",
  }),
  flag(
    general,
    "proxy-mode",
    "ProxyMode",
    "Which kernel machinery to use: iptables, ipvs or nftables; empty: iptables.",
    {
      field: "mode",
    },
  ),
  flag(
    general,
    "hostname-override",
    "string",
    "Name of this node, instead of the host name; wins over a configuration file.",
    {
      field: "hostnameOverride",
      overFile: true,
    },
  ),
  flag(general, "cleanup", "bool", "Remove all rules of every mode and exit."),
  flag(
    general,
    "init-only",
    "bool",
    "Do only what needs full privileges (sysctls, modules) and exit; then run without privileges.",
  ),
  flag(general, "feature-gates", "mapStringBool", "Feature gates, as name=true,name=false.", { field: "featureGates" }),
  flag(general, "config-sync-period", "duration", "How often everything is checked against the API.", {
    default: "15m0s",
    field: "configSyncPeriod",
  }),
  flag(general, "oom-score-adj", "int32", "oom_score_adj of this process, -1000 to 1000.", {
    default: "-999",
    field: "oomScoreAdj",
  }),
  flag(
    general,
    "boot-id-file",
    "string",
    "Files to look for the boot id in, comma-separated; the first one there is used.",
    {
      default: "/proc/sys/kernel/random/boot_id",
      placeholder: "files",
    },
  ),
  flag(
    general,
    "machine-id-file",
    "string",
    "Files to look for the machine id in, comma-separated; the first one there is used.",
    {
      default: "/etc/machine-id,/var/lib/dbus/machine-id",
      placeholder: "files",
    },
  ),
  flag(general, "version", "version", "Print the version and exit; --version=raw prints more.", { default: "false" }),
  flag(general, "help", "bool", "Print this text and exit.", { short: "h" }),

  flag(api, "kubeconfig", "string", "Kubeconfig file with the API server and credentials; empty: in-cluster.", {
    field: "clientConnection.kubeconfig",
    placeholder: "file",
  }),
  flag(api, "master", "string", "URL of the API server; wins over the kubeconfig.", { placeholder: "url" }),
  flag(api, "kube-api-qps", "float32", "Requests a second to the API server.", {
    default: "5",
    field: "clientConnection.qps",
  }),
  flag(api, "kube-api-burst", "int32", "Requests at once to the API server.", {
    default: "10",
    field: "clientConnection.burst",
  }),
  flag(
    api,
    "kube-api-content-type",
    "string",
    "Content type of requests to the API server. Accepted; this proxy speaks JSON.",
    {
      default: "application/vnd.kubernetes.protobuf",
      field: "clientConnection.contentType",
    },
  ),

  ...ruleFlags,

  flag(serving, "healthz-bind-address", "ipport", "Where /healthz and /livez are served; empty: nowhere.", {
    default: "0.0.0.0:10256",
    field: "healthzBindAddress",
  }),
  flag(serving, "healthz-port", "int32", "Port of /healthz; 0: none.", {
    default: "10256",
    deprecated: "--healthz-bind-address",
  }),
  flag(serving, "metrics-bind-address", "ipport", "Where /metrics is served; empty: nowhere.", {
    default: "127.0.0.1:10249",
    field: "metricsBindAddress",
  }),
  flag(serving, "metrics-port", "int32", "Port of /metrics; 0: none.", {
    default: "10249",
    deprecated: "--metrics-bind-address",
  }),
  flag(serving, "bind-address-hard-fail", "bool", "Exit when one of these ports is taken, instead of trying again.", {
    field: "bindAddressHardFail",
  }),
  flag(serving, "profiling", "bool", "Serve /debug/pprof on the metrics address.", { field: "enableProfiling" }),
  flag(serving, "show-hidden-metrics-for-version", "string", "Show metrics hidden since this release, such as 1.36.", {
    field: "showHiddenMetricsForVersion",
    placeholder: "version",
  }),

  flag(logs, "logging-format", "string", "text or json.", {
    default: "text",
    field: "logging.format",
    overFile: true,
    placeholder: "format",
  }),
  flag(logs, "v", "Level", "How much to tell: 0 little, 2 changes, 4 details, 6 everything.", {
    short: "v",
    field: "logging.verbosity",
    overFile: true,
  }),
  flag(logs, "vmodule", "vmodule", "Levels of single source files, as pattern=N,... (text only).", {
    field: "logging.vmodule",
    overFile: true,
  }),
  flag(logs, "log-flush-frequency", "duration", "Accepted; every line is written at once.", {
    default: "5s",
    field: "logging.flushFrequency",
    overFile: true,
  }),
  ...(["json", "text"] as const).flatMap((format) => [
    flag(
      logs,
      `log-${format}-split-stream`,
      "bool",
      `In ${format} format, errors to stderr and the rest to stdout (needs LoggingAlphaOptions).`,
      {
        field: `logging.options.${format}.splitStream`,
        overFile: true,
      },
    ),
    flag(
      logs,
      `log-${format}-info-buffer-size`,
      "quantity",
      `In ${format} format with split streams: accepted (needs LoggingAlphaOptions).`,
      {
        field: `logging.options.${format}.infoBufferSize`,
        overFile: true,
      },
    ),
  ]),

  flag(
    extra,
    "manifests",
    "strings",
    "Take Services, EndpointSlices and the Node from YAML files or folders instead of an API server. Repeatable.",
    {
      placeholder: "paths",
    },
  ),
];

/** Flags that kube-proxy does not have; /flagz lists them only when given. */
export const extraTopic = extra;
