/** Lines of `ipvsadm -R` and `ipvsadm -Sn` (virtual and real servers), and the connection counts of `ipvsadm -Ln --exact`. */
import { joinHostPort } from "../model/ip.ts";
import type { Protocol } from "../model/service.ts";

/** What a virtual server is known by. */
export interface ServerId {
  readonly protocol: Protocol;
  readonly ip: string;
  readonly port: number;
}

export interface ServerOptions {
  readonly scheduler: string;
  /** Sorted, e.g. `mh-fallback`, `mh-port`. */
  readonly schedulerFlags: readonly string[];
  /** Seconds; 0: none. */
  readonly persistence: number;
  /** Netmask (IPv4) or prefix length (IPv6) of persistence when it is not the whole address. */
  readonly netmask: string | undefined;
}

export type ServerLine =
  | { readonly kind: "-A" | "-E"; readonly server: ServerId; readonly options: ServerOptions }
  | { readonly kind: "-D"; readonly server: ServerId }
  | {
      readonly kind: "-a" | "-e";
      readonly server: ServerId;
      readonly real: string;
      readonly forward: Forward;
      readonly weight: number;
    }
  | { readonly kind: "-d"; readonly server: ServerId; readonly real: string };

/** `-m` is masquerading, the only one we write. */
export type Forward = "-m" | "-g" | "-i";

/** `tcp 10.0.0.1:80`: one text a virtual server, for maps. */
export function serverKey(server: ServerId): string {
  return `${server.protocol} ${joinHostPort(server.ip, server.port)}`;
}

/** One line with its newline. */
export function printServerLine(line: ServerLine): string {
  const at = `${line.kind} ${protocolFlags[line.server.protocol]} ${joinHostPort(line.server.ip, line.server.port)}`;
  switch (line.kind) {
    case "-A":
    case "-E":
      return `${at} ${printOptions(line.options)}\n`;
    case "-D":
      return `${at}\n`;
    case "-d":
      return `${at} -r ${line.real}\n`;
    default:
      return `${at} -r ${line.real} ${line.forward} -w ${line.weight}\n`;
  }
}

/** Undefined for firewall-mark servers and anything else that is not a server by address. */
export function parseServerLine(line: string): ServerLine | undefined {
  const words = line.trim().split(/\s+/);
  const [kind, flag, address] = words;
  const protocol = protocolOf(flag);
  const place = address === undefined ? undefined : splitHostPort(address);
  if (protocol === undefined || place === undefined) return undefined;
  const server: ServerId = { protocol, ...place };
  const value = (name: string): string | undefined => {
    const i = words.indexOf(name, 3);
    return i < 0 ? undefined : words[i + 1];
  };
  if (kind === "-A" || kind === "-E") return { kind, server, options: parseOptions(value) };
  if (kind === "-D") return { kind, server };
  const real = value("-r");
  if (real === undefined) return undefined;
  if (kind === "-d") return { kind, server, real };
  if (kind !== "-a" && kind !== "-e") return undefined;
  const forward = words.includes("-g") ? "-g" : words.includes("-i") ? "-i" : "-m";
  return { kind, server, real, forward, weight: Number(value("-w") ?? 1) };
}

/**
 * Active and inactive connections of every real server, keyed `serverKey real`, from `ipvsadm -Ln --exact`. The faster
 * /proc/net/ip_vs will not do: where two network namespaces have virtual servers the kernel leaves some out (seen on 6.1).
 */
export function parseConnections(output: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  let server = "";
  for (const line of output.split("\n")) {
    const [first, second, , , active, inactive] = line.trim().split(/\s+/);
    if (first === "->") {
      const sum = Number(active) + Number(inactive);
      if (server !== "" && second !== undefined && Number.isFinite(sum)) counts.set(`${server} ${second}`, sum);
      continue;
    }
    const protocol = first?.toLowerCase();
    server = protocol === "tcp" || protocol === "udp" || protocol === "sctp" ? `${protocol} ${second}` : "";
  }
  return counts;
}

// --- internal ---

const protocolFlags: Readonly<Record<Protocol, string>> = { tcp: "-t", udp: "-u", sctp: "--sctp-service" };

function protocolOf(flag: string | undefined): Protocol | undefined {
  if (flag === "-t") return "tcp";
  if (flag === "-u") return "udp";
  return flag === "--sctp-service" ? "sctp" : undefined;
}

function splitHostPort(text: string): { readonly ip: string; readonly port: number } | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):(\d+)$/.exec(text);
  const ip = match?.[1] ?? match?.[2];
  return ip === undefined ? undefined : { ip, port: Number(match?.[3]) };
}

function printOptions(options: ServerOptions): string {
  let text = `-s ${options.scheduler}`;
  if (options.persistence > 0) text += ` -p ${options.persistence}`;
  if (options.netmask !== undefined) text += ` -M ${options.netmask}`;
  if (options.schedulerFlags.length > 0) text += ` -b ${options.schedulerFlags.join(",")}`;
  return text;
}

function parseOptions(value: (name: string) => string | undefined): ServerOptions {
  return {
    scheduler: value("-s") ?? "",
    schedulerFlags: (value("-b") ?? "")
      .split(",")
      .filter((f) => f !== "")
      .sort(),
    persistence: Number(value("-p") ?? 0),
    netmask: value("-M"),
  };
}
