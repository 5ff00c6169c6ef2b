/** The flags of commands that work on rules: which configuration, which objects, and what to assume of the node. */
import { type Flag, type FlagTable, flag } from "./flag.ts";
import { flags } from "./flags.ts";

const look = "What to look at";
const assume = "What to assume of the node";

/** Flags of the proxy that decide about rules; here they win over the file, so that a change can be tried. */
const ruleNames: ReadonlySet<string> = new Set([
  "kubeconfig",
  "master",
  "manifests",
  "proxy-mode",
  "hostname-override",
  "feature-gates",
  "detect-local-mode",
  "cluster-cidr",
  "pod-bridge-interface",
  "pod-interface-name-prefix",
  "bind-address",
  "nodeport-addresses",
  "masquerade-all",
  "iptables-masquerade-bit",
  "iptables-localhost-nodeports",
  "ipvs-scheduler",
  "ipvs-exclude-cidrs",
  "ipvs-strict-arp",
]);

/** The row of --config for subcommands, where flags win. */
export const configFlag: Flag = flag(
  look,
  "config",
  "string",
  "Configuration file of the proxy; flags given here win over it.",
  {
    placeholder: "file",
  },
);

const lookNames: ReadonlySet<string> = new Set(["kubeconfig", "master", "manifests", "proxy-mode"]);

/** For every command that needs a situation (situation.ts). */
export const situationFlags: FlagTable = [
  configFlag,
  ...flags.filter(({ name }) => lookNames.has(name)).map((row) => ({ ...row, topic: look })),
  flag(look, "mode", "ProxyMode", "Short for --proxy-mode."),
  flag(look, "family", "string", "Only this IP family: 4 or 6.", { placeholder: "4|6" }),
  flag(assume, "node-name", "string", "Short for --hostname-override. Default: this host, or the only Node there is.", {
    placeholder: "name",
  }),
  flag(assume, "node-ip", "strings", "Addresses of the node, instead of those in its Node object.", {
    placeholder: "IPs",
  }),
  ...flags.filter(({ name }) => ruleNames.has(name) && !lookNames.has(name)),
];

/** For commands that do not ask this machine: what its tools and kernel can do. */
export const factFlags: FlagTable = [
  flag(assume, "iptables-variant", "string", "Which iptables the node has: nft or legacy.", {
    default: "nft",
    placeholder: "variant",
  }),
  flag(assume, "kernel", "string", "Kernel of the node, such as 6.1.", { default: "6.1", placeholder: "version" }),
  flag(assume, "nfacct", "bool", "The node has nfacct and counts packets with it."),
];
