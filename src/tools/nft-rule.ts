/** The rule expressions that our chains are made of, spelt as nft lists them (a restart compares the two). */
import type { LocalDetector } from "../model/context.ts";
import type { Family } from "../model/family.ts";
import { cidrContains, compareIPs } from "../model/ip.ts";
import type { Protocol } from "../model/service.ts";

/** An address and port that traffic is sent to. */
export interface Target {
  readonly ip: string;
  readonly port: number;
}

const frontend = "meta l4proto . th dport";

/** Text that holds nothing but nft's identifier characters; chain names are never quoted. */
export function identifier(text: string): string {
  return text.replace(/[^A-Za-z0-9/_.-]/g, "_");
}

/** The verdict; `chain` is a chain name of ours. */
export function goTo(chain: string): string {
  return `goto ${chain}`;
}

/** `jump` for new connections only: filters need not look at the packets of a connection that NAT already decided. */
export function jumpIfNew(chain: string): string {
  return `ct state new jump ${chain}`;
}

/** Look address, protocol and port up in a verdict map. */
export function lookUpFrontend(family: Family, map: string): string {
  return `${family.nft} daddr . ${frontend} vmap @${map}`;
}

/** Look protocol and port up in a verdict map, for packets that match `condition`. */
export function lookUpNodePort(condition: string, map: string): string {
  return `${condition} ${frontend} vmap @${map}`;
}

/** Whether the destination is one of the node-port addresses: of a set, or any local one but loopback. */
export function nodePortAddress(family: Family, set: string | undefined, checkLocal: boolean): string {
  if (set !== undefined) return `${family.nft} daddr @${set}`;
  return `${checkLocal ? "fib daddr type local " : ""}${family.nft} daddr != ${plainPrefix(family, family.loopback)}`;
}

/** One choice, made by the kernel with equal odds for every new connection. */
export function dnatToOneOf(family: Family, protocol: Protocol, targets: readonly Target[]): string {
  const [only] = targets;
  if (targets.length === 1 && only !== undefined) return dnatTo(protocol, only);
  const choices = targets.map((target, i) => `${i} : ${target.ip} . ${target.port}`).join(", ");
  return `meta l4proto ${protocol} dnat ${family.nft} to numgen random mod ${targets.length} map { ${choices} }`;
}

/** To the only endpoint: no random number and no map, as kube-proxy does from 1.37. */
export function dnatTo(protocol: Protocol, { ip, port }: Target): string {
  return `meta l4proto ${protocol} dnat to ${ip.includes(":") ? `[${ip}]` : ip}:${port}`;
}

/** What a packet's endpoint is looked up by: where it goes to, or its node port alone. */
export type IndexedBy = "address" | "nodePort";

/**
 * nft restores neither `th dport` nor a bare integer type from a map that is already in the kernel (1.0.6 to 1.1.7): hence
 * a map for each protocol, with types told by expressions.
 */
function indexedKey(family: Family, by: IndexedBy, protocol: Protocol, count: number): string {
  return `${by === "address" ? `${family.nft} daddr . ` : ""}${protocol} dport . numgen random mod ${count}`;
}

/** One choice out of the first `count` elements of the packet's frontend in a shared map. */
export function dnatByIndex(family: Family, by: IndexedBy, protocol: Protocol, map: string, count: number): string {
  return `dnat ${family.nft} to ${indexedKey(family, by, protocol, count)} map @${map}`;
}

/** Key and value expressions of such a map. The number after `mod` means nothing here. */
export function indexedTypes(
  family: Family,
  by: IndexedBy,
  protocol: Protocol,
): { readonly key: string; readonly value: string } {
  return { key: indexedKey(family, by, protocol, 2), value: `${family.nft} daddr . ${protocol} dport` };
}

/** One of the chains with equal odds; for endpoints that must be remembered (session affinity). */
export function goToOneOf(chains: readonly string[]): string {
  const choices = chains.map((chain, i) => `${i} : goto ${chain}`).join(", ");
  return `numgen random mod ${chains.length} vmap { ${choices} }`;
}

/** Clients remembered in `set` go on to `chain`. */
export function goToIfRemembered(family: Family, set: string, chain: string): string {
  return `${family.nft} saddr @${set} goto ${chain}`;
}

/** Puts the sender into a dynamic set, or renews its timeout there. */
export function remember(family: Family, set: string): string {
  return `update @${set} { ${family.nft} saddr }`;
}

/** Drop what does not come from one of the ranges (canonical CIDRs or addresses of this family); all when there is none. */
export function dropUnlessFrom(family: Family, ranges: readonly string[]): string {
  const [first] = ranges;
  if (first === undefined) return "drop";
  return `${family.nft} saddr != ${anyOf(family, ranges)} drop`;
}

/** One range as it is, several as an anonymous set, in the listing's order and without what another one holds. */
export function anyOf(family: Family, ranges: readonly string[]): string {
  const addressOf = (range: string) => range.slice(0, `${range}/`.indexOf("/"));
  const widest = ranges.filter((range, i) =>
    ranges.every((other, j) => i === j || !holds(other, range) || (holds(range, other) && i < j)),
  );
  const sorted = widest.sort((a, b) => compareIPs(addressOf(a), addressOf(b)));
  const plain = sorted.map((range) => plainPrefix(family, range));
  return plain.length === 1 ? (plain[0] ?? "") : `{ ${plain.join(", ")} }`;
}

/** Whether `outer` holds all of `inner`; both are addresses or CIDRs. */
function holds(outer: string, inner: string): boolean {
  const [ip = "", length] = inner.split("/");
  if (!outer.includes("/"))
    return outer === ip && (length === undefined || length === (ip.includes(":") ? "128" : "32"));
  const outerLength = Number(outer.slice(outer.indexOf("/") + 1));
  return cidrContains(outer, ip) && (length === undefined || Number(length) >= outerLength);
}

/** nft lists the prefix of a single host as its address. */
function plainPrefix(family: Family, cidr: string): string {
  const single = `/${family.bits}`;
  return cidr.endsWith(single) ? cidr.slice(0, -single.length) : cidr;
}

/** `meta mark set meta mark | 0x…`: masquerade this packet later. */
export function setMark(mark: number): string {
  return `meta mark set meta mark | ${hex(mark)}`;
}

/** Takes the mark off first: a packet that passes the stack twice (overlay networks) must not be masqueraded again. */
export function masqueradeMarked(mark: number, random: boolean): string {
  return `meta mark & ${hex(mark)} != ${hex(0)} meta mark set meta mark ^ ${hex(mark)} masquerade${fully(random)}`;
}

/** Packets that DNAT sends back to the pod they came from. */
export function masqueradeHairpin(family: Family, set: string, random: boolean): string {
  const { nft } = family;
  return `ct status dnat ${nft} saddr . ${nft} daddr . ${frontend} @${set} masquerade${fully(random)}`;
}

function fully(random: boolean): string {
  return random ? " fully-random" : "";
}

function hex(mark: number): string {
  return `0x${mark.toString(16).padStart(8, "0")}`;
}

/** Whether a packet comes from a pod of this cluster (`negate`: from elsewhere); undefined when that cannot be told. */
export function fromPods(family: Family, detector: LocalDetector, negate: boolean): string | undefined {
  const operator = negate ? "!= " : "";
  switch (detector.kind) {
    case "none":
      return undefined;
    case "cidr":
      return `${family.nft} saddr ${operator}${plainPrefix(family, detector.cidr)}`;
    case "bridge":
      return `iifname ${operator}${interfaceName(detector.name)}`;
    case "prefix":
      return `iifname ${operator}${interfaceName(detector.prefix, "*")}`;
  }
}

/** Configuration, not API, but still no quote may break out of the rule. A `*` inside a name is escaped: only ours is a wildcard. */
function interfaceName(name: string, suffix = ""): string {
  return `"${name.replace(/[^\x21-\x7e]|["\\]/g, "_").replace(/\*/g, "\\*")}${suffix}"`;
}
