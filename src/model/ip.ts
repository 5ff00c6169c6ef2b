/** IP addresses and CIDRs as canonical text: parsing, comparing, containing. */
import type { FamilyName } from "./family.ts";

/**
 * Canonical text of an address (RFC 5952 for IPv6), or undefined when it is none. Octets with leading zeros are read as
 * decimal and IPv4-mapped IPv6 as IPv4, as the API server does for old objects. Zones (`%eth0`) are refused.
 */
export function parseIP(text: string): string | undefined {
  if (text.length > 45) return undefined;
  if (!text.includes(":")) return parseIPv4(text)?.join(".");
  const groups = parseGroups(text);
  if (groups === undefined) return undefined;
  if (groups.slice(0, 5).every((g) => g === 0) && groups[5] === 0xffff) return mappedIPv4(groups);
  return printGroups(groups);
}

/** Family of a canonical address or CIDR. */
export function familyOf(ip: string): FamilyName {
  return ip.includes(":") ? "IPv6" : "IPv4";
}

/** Canonical `network/prefix` with the host bits cleared, or undefined. */
export function parseCIDR(text: string): string | undefined {
  const slash = text.indexOf("/");
  const ip = parseIP(text.slice(0, slash));
  const length = text.slice(slash + 1);
  if (slash < 0 || ip === undefined || !/^(0|[1-9]\d{0,2})$/.test(length)) return undefined;
  // The prefix of an IPv4-mapped network counts from 96: refuse it instead of guessing.
  if (text.slice(0, slash).includes(":") && !ip.includes(":")) return undefined;
  const bits = Number(length);
  const width = ip.includes(":") ? 128 : 32;
  if (bits > width) return undefined;
  const shift = BigInt(width - bits);
  return `${printNumber((toNumber(ip) >> shift) << shift, width)}/${bits}`;
}

/** Whether a canonical CIDR holds a canonical address; false across families. */
export function cidrContains(cidr: string, ip: string): boolean {
  const slash = cidr.indexOf("/");
  const network = cidr.slice(0, slash);
  if (network.includes(":") !== ip.includes(":")) return false;
  const shift = BigInt((ip.includes(":") ? 128 : 32) - Number(cidr.slice(slash + 1)));
  return toNumber(network) >> shift === toNumber(ip) >> shift;
}

/** In 127.0.0.0/8, or ::1. `ip` is canonical. */
export function isLoopback(ip: string): boolean {
  return ip.startsWith("127.") || ip === "::1";
}

/** 0.0.0.0 or ::, canonical. */
export function isUnspecified(ip: string): boolean {
  return ip === "0.0.0.0" || ip === "::";
}

/** `10.0.0.1:80`, `[fd00::1]:80`. */
export function joinHostPort(ip: string, port: number): string {
  return ip.includes(":") ? `[${ip}]:${port}` : `${ip}:${port}`;
}

/** Order by family, then by number. */
export function compareIPs(a: string, b: string): number {
  if (a === b) return 0;
  const six = Number(a.includes(":")) - Number(b.includes(":"));
  if (six !== 0) return six;
  return toNumber(a) < toNumber(b) ? -1 : 1;
}

// --- internal ---

function parseIPv4(text: string): number[] | undefined {
  const parts = text.split(".");
  if (parts.length !== 4) return undefined;
  const octets = parts.map((p) => (/^\d{1,15}$/.test(p) ? Number(p) : 256));
  return octets.every((o) => o <= 255) ? octets : undefined;
}

function parseGroups(text: string): number[] | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = groupsOf(halves[0] ?? "", halves.length === 1);
  const tail = halves.length === 2 ? groupsOf(halves[1] ?? "", true) : [];
  if (head === undefined || tail === undefined) return undefined;
  const missing = 8 - head.length - tail.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined;
  return [...head, ...new Array<number>(missing).fill(0), ...tail];
}

function groupsOf(text: string, last: boolean): number[] | undefined {
  if (text === "") return [];
  const out: number[] = [];
  const parts = text.split(":");
  for (const [i, part] of parts.entries()) {
    if (last && i === parts.length - 1 && part.includes(".")) {
      const v4 = parseIPv4(part);
      if (v4 === undefined) return undefined;
      const [a = 0, b = 0, c = 0, d = 0] = v4;
      out.push((a << 8) | b, (c << 8) | d);
    } else if (/^[0-9a-fA-F]{1,4}$/.test(part)) out.push(Number.parseInt(part, 16));
    else return undefined;
  }
  return out;
}

function mappedIPv4(groups: readonly number[]): string {
  const high = groups[6] ?? 0;
  const low = groups[7] ?? 0;
  return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
}

function printGroups(groups: readonly number[]): string {
  let best = -1;
  let bestLength = 1;
  for (let i = 0; i < 8; i++) {
    let end = i;
    while (end < 8 && groups[end] === 0) end++;
    if (end - i > bestLength) {
      best = i;
      bestLength = end - i;
    }
  }
  const hex = groups.map((g) => g.toString(16));
  if (best < 0) return hex.join(":");
  return `${hex.slice(0, best).join(":")}::${hex.slice(best + bestLength).join(":")}`;
}

function toNumber(ip: string): bigint {
  if (!ip.includes(":")) {
    const [a = 0, b = 0, c = 0, d = 0] = ip.split(".").map(Number);
    return BigInt(((a * 256 + b) * 256 + c) * 256 + d);
  }
  let n = 0n;
  for (const g of parseGroups(ip) ?? []) n = (n << 16n) | BigInt(g);
  return n;
}

function printNumber(n: bigint, width: number): string {
  if (width === 32) return [24n, 16n, 8n, 0n].map((s) => Number((n >> s) & 255n)).join(".");
  return printGroups(Array.from({ length: 8 }, (_, i) => Number((n >> BigInt(112 - 16 * i)) & 0xffffn)));
}
