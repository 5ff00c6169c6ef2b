/** What kube-proxy left in the kernel (recorded conformance data), put back into a namespace, beside things of others. */
import { existsSync, readFileSync } from "node:fs";
import type { Space } from "./space.ts";

const cases = `${import.meta.dir}/../conformance/cases`;

/** Recorded text as restore input: chains first, and a COMMIT a table; without the ipvs match, which few kernels have. */
export function restoreInput(recorded: string): string {
  const tables = new Map<string, { readonly chains: string[]; readonly rules: string[] }>();
  let table: { readonly chains: string[]; readonly rules: string[] } | undefined;
  for (const line of recorded.split("\n")) {
    if (line.startsWith("*")) {
      table = { chains: [], rules: [] };
      tables.set(line.slice(1), table);
    } else if (line.startsWith(":") && line.includes("KUBE-")) table?.chains.push(`${line} [0:0]`);
    else if (line.startsWith("-A") && !line.includes("-m ipvs")) table?.rules.push(line);
  }
  return [...tables]
    .map(([name, { chains, rules }]) => [`*${name}`, ...chains, ...rules, "COMMIT", ""].join("\n"))
    .join("");
}

/** Recorded sets as restore input. */
export function setInput(recorded: string): string {
  const lines = recorded.split("\n").filter((line) => line !== "");
  const creates = lines.filter((line) => line.startsWith("create"));
  return `${[...creates, ...lines.filter((line) => !line.startsWith("create"))].join("\n")}\n`;
}

export function recordedText(name: string, mode: string, what: string): string {
  const file = `${cases}/${name}/${mode}/1.${what}`;
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

/** The rules name them, so they must exist before. */
const ourCounters = ["ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts"];

/** The chains (and sets) of one recorded case, both families, into one variant of iptables. */
export function fill(space: Space, name: string, mode: "iptables" | "ipvs", variant: "nft" | "legacy"): void {
  const sets = setInput(recordedText(name, mode, "ipset"));
  if (sets.trim() !== "") space.must(["ipset", "-exist", "restore"], sets);
  if (mode === "iptables") for (const counter of ourCounters) space.run(["nfacct", "add", counter]);
  for (const family of ["iptables", "ip6tables"]) {
    const input = restoreInput(recordedText(name, mode, family));
    if (input !== "") space.must([`${family}-${variant}-restore`, "--noflush"], input);
  }
}

/** The recorded virtual servers and the addresses of kube-ipvs0; returns how many servers. */
export function fillServers(space: Space, name: string): number {
  const lines = recordedText(name, "ipvs", "ipvs")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  space.must(["ipvsadm", "-R"], `${lines.join("\n")}\n`);
  space.must(["ip", "link", "add", "kube-ipvs0", "type", "dummy"]);
  for (const address of recordedText(name, "ipvs", "addrs")
    .split(/\s+/)
    .filter((text) => text !== ""))
    space.must(["ip", "addr", "add", address, "dev", "kube-ipvs0"]);
  return lines.filter((line) => line.startsWith("-A")).length;
}

/** Rules, sets, tables and counters that look like ours and are not. `nftables`: the kernel has it. */
export function fillForeign(space: Space, variants: readonly ("nft" | "legacy")[], nftables = true): void {
  const filter = `*filter
:MINE - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
:KUBE-POD-FW-ABCDEFGHIJKLMNOP - [0:0]
:KUBE-HOSTPORTS - [0:0]
-A INPUT -m comment --comment "not -j KUBE-SERVICES" -j MINE
-A MINE -p tcp --dport 22 -j ACCEPT
-A FORWARD -j KUBE-ROUTER-INPUT
-A KUBE-ROUTER-INPUT -m comment --comment "KUBE-FORWARD" -j KUBE-POD-FW-ABCDEFGHIJKLMNOP
COMMIT
*nat
:KUBE-HP-ABCDEFGHIJKLMNOP - [0:0]
-A PREROUTING -p tcp --dport 8080 -j KUBE-HP-ABCDEFGHIJKLMNOP
-A POSTROUTING -o nothere -j MASQUERADE
COMMIT
*mangle
-A FORWARD -p tcp -j MARK --set-xmark 0x1/0x1
COMMIT
`;
  for (const variant of variants)
    for (const family of ["iptables", "ip6tables"]) space.must([`${family}-${variant}-restore`, "--noflush"], filter);
  space.must(["ipset", "restore"], "create KUBE-MINE hash:ip family inet\nadd KUBE-MINE 10.0.0.1\n");
  const tables = `table ip kube-proxy-2 { chain c { ip daddr 10.0.0.1 accept; }; }
table inet other { chain c { type filter hook input priority 0; }; }
table ip6 mine { }
`;
  if (nftables) space.must(["nft", "-f", "-"], tables);
  space.run(["nfacct", "add", "somebody_elses_pkts"]);
}

/** Everything in the namespace that a clean-up could touch, as text. */
export function dump(space: Space): string {
  const parts = [
    ["iptables-nft-save"],
    ["ip6tables-nft-save"],
    ["iptables-legacy-save"],
    ["ip6tables-legacy-save"],
    ["ipset", "save"],
    ["nft", "list", "tables"],
    ["nft", "list", "table", "ip", "kube-proxy-2"],
    ["nft", "list", "table", "inet", "other"],
    ["nfacct", "list"],
    ["ip", "-o", "link"],
  ];
  const text = parts.map((argv) => `${argv.join(" ")}\n${space.run(argv).out}`).join("");
  return text
    .split("\n")
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.replace(/ (initval|bucketsize) \S+| \[\d+:\d+\]$/g, ""))
    .join("\n");
}
