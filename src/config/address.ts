/** Addresses as flags and configuration spell them: `ip:port`, `[ip6]:port`. */
import { parseIP } from "../model/ip.ts";

/** Port 0–65535 in plain decimal, or undefined. */
export function parsePort(text: string): number | undefined {
  return /^(0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65535 ? Number(text) : undefined;
}

/** The two parts of `ip:port` or `[ip6]:port`, the address canonical; undefined when it is anything else. */
export function parseIPPort(text: string): { readonly ip: string; readonly port: number } | undefined {
  const [, v6, v4, digits] = /^(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+)):(\d+)$/.exec(text) ?? [];
  const ip = parseIP(v6 ?? v4 ?? "");
  const port = parsePort(digits ?? "");
  return ip === undefined || port === undefined ? undefined : { ip, port };
}
