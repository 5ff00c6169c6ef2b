/** The packet that a question is about: where it starts, where it is sent; read from what a user types. */
import type { Context } from "../model/context.ts";
import { type FamilyName, IPv4 } from "../model/family.ts";
import { cidrContains, familyOf, isLoopback, joinHostPort, parseIP } from "../model/ip.ts";
import type { Plan } from "../model/plan.ts";
import type { Protocol } from "../model/service.ts";

/** `pod`: comes in from a pod's interface of this node. `node`: a process of the node itself. */
export type SourceKind = "pod" | "node" | "external";

export interface Source {
  readonly kind: SourceKind;
  /** Canonical. Of a node without a given address: what the kernel would choose. */
  readonly ip: string;
  /** The address stands for any of its kind. */
  readonly assumed: boolean;
}

export interface Destination {
  readonly ip: string;
  readonly port: number;
  readonly protocol: Protocol;
}

export interface Packet {
  readonly from: Source;
  readonly to: Destination;
}

/** What a user typed was understood, or why not. */
export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly problem: string };

/** `10.96.0.1:80`, `[fd00::1]:53/udp`; tcp where no protocol is given. */
export function readDestination(text: string): Read<Destination> {
  const match = /^(?:\[([^\]]+)\]|([^:/[\]]+)):(\d{1,5})(?:\/([a-zA-Z]+))?$/.exec(text.trim());
  const ip = parseIP(match?.[1] ?? match?.[2] ?? "");
  const port = Number(match?.[3]);
  const protocol = (match?.[4] ?? "tcp").toLowerCase();
  if (match === null)
    return no(`${shown(text)} is not of the form IP:port[/protocol], such as 10.96.0.10:53/udp or [fd00::1]:80`);
  if (ip === undefined) return no(`${shown(match[1] ?? match[2] ?? "")} is not an IP address`);
  if (port < 1 || port > 65535) return no(`${port} is not a port: 1 to 65535`);
  if (protocol !== "tcp" && protocol !== "udp" && protocol !== "sctp")
    return no(`${shown(protocol)} is not a protocol: tcp, udp or sctp`);
  return { ok: true, value: { ip, port, protocol } };
}

/** `pod`, `node`, `external` or an address of the destination's family; what an address is, is told from plan and Context. */
export function readSource(text: string, to: Destination, plan: Plan, context: Context, here: Here): Read<Source> {
  const word = text.trim().toLowerCase();
  if (word === "node")
    return { ok: true, value: { kind: "node", ip: nodeSource(to.ip, context, here), assumed: true } };
  if (word === "pod") return { ok: true, value: { kind: "pod", ip: somePod(plan, context), assumed: true } };
  if (word === "external" || word === "outside")
    return { ok: true, value: { kind: "external", ip: outsider[context.family.name], assumed: true } };
  const ip = parseIP(text.trim());
  if (ip === undefined) return no(`${shown(text)} is not an IP address, "pod", "node" or "external"`);
  if (familyOf(ip) !== familyOf(to.ip))
    return no(`${ip} is ${familyOf(ip)} but ${to.ip} is ${familyOf(to.ip)}: a packet has one family`);
  return { ok: true, value: { kind: kindOf(ip, plan, context, here), ip, assumed: false } };
}

/** What is known of this machine beyond the Context. */
export interface Here {
  /** Every address of its interfaces, the proxy's own device left out, canonical; loopback addresses need not be in it. */
  readonly localAddresses: ReadonlySet<string>;
  /** The Node's ranges for its pods, canonical. */
  readonly podCIDRs?: readonly string[];
}

/** The addresses that the Context alone tells: the node's own and those of node ports. */
export function hereOf(context: Context): Here {
  return { localAddresses: new Set([context.nodeIP, ...context.nodePorts.addresses]) };
}

export function isLocal(ip: string, here: Here): boolean {
  return isLoopback(ip) || here.localAddresses.has(ip);
}

/** The address that the kernel gives a connection of the node: the destination where that is its own, else the node IP. */
export function nodeSource(to: string, context: Context, here: Here, isVirtual?: (ip: string) => boolean): string {
  if (isLoopback(to)) return context.family.name === IPv4.name ? "127.0.0.1" : "::1";
  return isLocal(to, here) || isVirtual?.(to) === true ? to : context.nodeIP;
}

/** `10.0.0.1:80/tcp`. */
export function printDestination({ ip, port, protocol }: Destination): string {
  return `${joinHostPort(ip, port)}/${protocol}`;
}

// --- internal ---

/** Documentation addresses (RFC 5737, RFC 3849): nobody's. */
const outsider: Readonly<Record<FamilyName, string>> = { IPv4: "203.0.113.250", IPv6: "2001:db8::fa" };

function kindOf(ip: string, plan: Plan, context: Context, here: Here): SourceKind {
  if (isLocal(ip, here)) return "node";
  const { detectLocal } = context;
  if (detectLocal.kind === "cidr") return cidrContains(detectLocal.cidr, ip) ? "pod" : "external";
  // Rules that look at interfaces: only this node's own pods come by them.
  const ours = here.podCIDRs?.some((cidr) => cidrContains(cidr, ip)) === true;
  return ours || isLocalEndpoint(ip, plan) ? "pod" : "external";
}

function isLocalEndpoint(ip: string, plan: Plan): boolean {
  for (const service of plan.services.values())
    for (const port of service.ports)
      if ([...port.endpoints, ...port.unused].some((e) => e.local && e.ip === ip)) return true;
  return false;
}

/** An address of the pod range that is no endpoint here, so that no answer is about a pod that reaches itself. */
function somePod(plan: Plan, { detectLocal, family }: Context): string {
  const four = family.name === "IPv4";
  const cidr = detectLocal.kind === "cidr" ? detectLocal.cidr : four ? "10.244.0.0/16" : "fd00:10:244::/56";
  const network = cidr.slice(0, cidr.indexOf("/"));
  for (let last = 250; last > 1; last--) {
    const ip = four
      ? network.replace(/\d+$/, String(last))
      : parseIP(`${network.replace(/::$/, "")}::${last.toString(16)}`);
    if (ip !== undefined && cidrContains(cidr, ip) && !isLocalEndpoint(ip, plan)) return ip;
  }
  return network;
}

function no(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem };
}

/** Quoted, bounded, printable. */
function shown(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, "?");
  return `"${printable.length > 60 ? `${printable.slice(0, 60)}…` : printable}"`;
}
