/** Warns when a node port takes packets away from a process of this machine, or may be picked for an outgoing connection. */
import { readFileSync } from "node:fs";
import type { Log } from "../model/log.ts";
import type { Plan } from "../model/plan.ts";
import type { ProxyEvents } from "./events.ts";
import { portHolder } from "./port-holder.ts";

export interface PortClashOptions {
  readonly log: Log;
  readonly events: ProxyEvents;
  /** Default /proc; for tests. */
  readonly proc?: string;
}

/** Looks only at node ports that are new, after their rules are in (kubernetes#76892: node port 6443). */
export class PortClashes {
  readonly #options: PortClashOptions;
  #known = new Set<string>();
  #toldRange = false;

  constructor(options: PortClashOptions) {
    this.#options = options;
  }

  follow(plan: Plan): void {
    const ports = nodePortsOf(plan);
    const fresh = [...ports].filter(([key]) => !this.#known.has(key));
    this.#known = new Set(ports.keys());
    if (fresh.length === 0) return;
    const taken = this.#listening();
    for (const [key, { service, port, protocol }] of fresh) if (taken.has(key)) this.#tell(service, port, protocol);
    this.#tellRange(fresh.map(([, { port }]) => port));
  }

  // --- internal ---

  #tell(service: string, port: number, protocol: string): void {
    const holder = protocol === "tcp" ? portHolder(port, this.#options.proc) : undefined;
    // Our own listener for node ports on localhost.
    if (holder?.endsWith(`(pid ${process.pid})`) === true) return;
    const process_ = holder ?? "a process of this machine";
    this.#options.log.warn("A node port is in use: its packets go to the Service, no longer to the process", {
      service,
      port: `${port}/${protocol}`,
      process: process_,
    });
    this.#options.events.warn(
      "NodePortInUse",
      `node port ${port}/${protocol} of ${service} is also used by ${process_}`,
    );
  }

  #tellRange(ports: readonly number[]): void {
    const [low = 0, high = 0] = this.#read("sys/net/ipv4/ip_local_port_range").trim().split(/\s+/).map(Number);
    const reserved = parseRanges(this.#read("sys/net/ipv4/ip_local_reserved_ports"));
    const port = ports.find((p) => p >= low && p <= high && !reserved.some(([a, b]) => p >= a && p <= b));
    if (port === undefined || this.#toldRange) return;
    this.#toldRange = true;
    this.#options.log.warn(
      "Node ports lie in the range of outgoing connections, which may then fail: reserve them in net.ipv4.ip_local_reserved_ports",
      {
        port,
        range: `${low}-${high}`,
      },
    );
  }

  /** `tcp/80` of everything that listens (TCP) or is bound (UDP). */
  #listening(): ReadonlySet<string> {
    const found = new Set<string>();
    for (const table of ["tcp", "tcp6", "udp", "udp6"]) {
      const protocol = table.slice(0, 3);
      for (const port of listeningPorts(this.#read(`net/${table}`), protocol)) found.add(`${protocol}/${port}`);
    }
    return found;
  }

  #read(path: string): string {
    try {
      return readFileSync(`${this.#options.proc ?? "/proc"}/${path}`, "utf8");
    } catch {
      return "";
    }
  }
}

/** Local ports in the text of /proc/net/tcp that listen (state 0A), or of /proc/net/udp that are unconnected (07). */
export function listeningPorts(table: string, protocol: string): readonly number[] {
  const state = protocol === "tcp" ? "0A" : "07";
  return table.split("\n").flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    if (fields[3] !== state) return [];
    return Number.parseInt(fields[1]?.split(":").at(-1) ?? "", 16) || [];
  });
}

/** `8080,9000-9100` as pairs. */
export function parseRanges(text: string): readonly (readonly [number, number])[] {
  return text
    .trim()
    .split(",")
    .filter((part) => part !== "")
    .map((part) => {
      const [from = 0, to = from] = part.split("-").map(Number);
      return [from, to] as const;
    });
}

// --- internal ---

function nodePortsOf(plan: Plan): ReadonlyMap<string, { service: string; port: number; protocol: string }> {
  const ports = new Map<string, { service: string; port: number; protocol: string }>();
  for (const service of plan.services.values()) {
    for (const { nodePort, protocol } of service.ports) {
      if (nodePort !== 0) ports.set(`${protocol}/${nodePort}`, { service: service.key, port: nodePort, protocol });
    }
  }
  return ports;
}
