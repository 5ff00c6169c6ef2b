/** What differs between the two IP families, in one record, so that no other file spells it twice. */

export type FamilyName = "IPv4" | "IPv6";

export interface Family {
  readonly name: FamilyName;
  /** Prefix length of one host address. */
  readonly bits: 32 | 128;
  /** nft family and address expression keyword: `ip daddr`, `table ip …`. */
  readonly nft: "ip" | "ip6";
  readonly nftType: "ipv4_addr" | "ipv6_addr";
  /** Prefix of the iptables tools: `iptables-restore`, `ip6tables-restore`. */
  readonly iptables: "iptables" | "ip6tables";
  readonly ipset: "inet" | "inet6";
  readonly loopback: "127.0.0.0/8" | "::1/128";
  readonly any: "0.0.0.0/0" | "::/0";
  readonly unspecified: "0.0.0.0" | "::";
  readonly rejectWith: "icmp-port-unreachable" | "icmp6-port-unreachable";
}

export const IPv4: Family = {
  name: "IPv4",
  bits: 32,
  nft: "ip",
  nftType: "ipv4_addr",
  iptables: "iptables",
  ipset: "inet",
  loopback: "127.0.0.0/8",
  any: "0.0.0.0/0",
  unspecified: "0.0.0.0",
  rejectWith: "icmp-port-unreachable",
};

export const IPv6: Family = {
  name: "IPv6",
  bits: 128,
  nft: "ip6",
  nftType: "ipv6_addr",
  iptables: "ip6tables",
  ipset: "inet6",
  loopback: "::1/128",
  any: "::/0",
  unspecified: "::",
  rejectWith: "icmp6-port-unreachable",
};

export const families: Readonly<Record<FamilyName, Family>> = { IPv4, IPv6 };
