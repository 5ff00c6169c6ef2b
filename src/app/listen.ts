/** Sockets of our HTTP servers: bound, limited, and re-tried when the port is taken. */
import type { Connection, HttpHandler } from "../model/http-answer.ts";
import type { Log } from "../model/log.ts";
import { portHolder } from "./port-holder.ts";

export interface Listener {
  readonly address: string;
  /** The real one when 0 was asked for. */
  readonly port: number;
  /** Stop listening and cut all connections at once. */
  close(): void;
}

/** Probes and scrapes have no bodies; `PUT /debug/flags/v` has two bytes. */
const maxBodyBytes = 4096;
const idleSeconds = 10;

export interface ListenOptions {
  /** `::` takes IPv4 connections too, as Go's servers do; else it leaves 0.0.0.0 to another listener of ours. */
  readonly dualStack?: boolean;
  /** A handler threw: a mistake of ours, answered with 500. */
  readonly failed?: (error: Error) => void;
}

/** Listen on a literal address. Throws an Error with a one-line message when it cannot be had. */
export function listen(address: string, port: number, handler: HttpHandler, options: ListenOptions = {}): Listener {
  try {
    const server = Bun.serve({
      hostname: address,
      port,
      ipv6Only: address.includes(":") && !options.dualStack,
      idleTimeout: idleSeconds,
      maxRequestBodySize: maxBodyBytes,
      development: false,
      // Outside development Bun sets SO_REUSEPORT: a second process would share the port, unnoticed (measured, 1.4.5).
      reusePort: false,
      fetch: (request, self) => handler(request, connectionOf(request, self)),
      error: (cause) => {
        options.failed?.(cause);
        return new Response("internal error\n", { status: 500 });
      },
    });
    return { address, port: server.port ?? port, close: () => void server.stop(true) };
  } catch (cause) {
    throw new Error(explainBind(address, port, cause), { cause });
  }
}

function connectionOf(request: Request, server: Bun.Server<undefined>): Connection {
  return {
    get local() {
      return /^(::ffff:)?127\.|^::1$/.test(server.requestIP(request)?.address ?? "");
    },
    extend: (seconds) => server.timeout(request, Math.min(seconds, 255)),
  };
}

const bindErrors: Readonly<Record<string, string>> = {
  EADDRINUSE: "the port is in use by another process (see: ss -ltnp)",
  EADDRNOTAVAIL: "this host does not have the address",
  EACCES: "not permitted (ports below 1024 need CAP_NET_BIND_SERVICE)",
  EAFNOSUPPORT: "this host does not do that IP family",
  EINVAL: "not a usable address (link-local needs a zone)",
};

function explainBind(address: string, port: number, cause: unknown): string {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const taken = code === "EADDRINUSE" ? portHolder(port) : undefined;
  const other = cause instanceof Error ? cause.message : String(cause);
  const reason = taken ? `the port is in use by ${taken}` : (bindErrors[code] ?? other);
  return `cannot listen on ${bracketed(address)}:${port}: ${reason}`;
}

export function bracketed(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

export interface KeptListener {
  /** Undefined while the port cannot be had. */
  current(): Listener | undefined;
  close(): void;
}

export interface KeepListeningOptions {
  /** The configuration field, for messages: `healthzBindAddress`. */
  readonly field: string;
  readonly address: string;
  readonly port: number;
  readonly handler: HttpHandler;
  /** bindAddressHardFail: throw at the first failure instead of trying again. */
  readonly hardFail: boolean;
  readonly retryMs: number;
  readonly log: Log;
  /** Runs `task` once after `ms`; returns how to call it off. */
  readonly schedule: (ms: number, task: () => void) => () => void;
  /** Told when it listens, also after retries. */
  readonly listening?: (listener: Listener) => void;
}

/**
 * Listen, and when the address cannot be had say so and keep trying. With `hardFail` throws an Error whose one-line
 * message names the field: the caller exits with it.
 */
export function keepListening(options: KeepListeningOptions): KeptListener {
  const { field, address, port, log } = options;
  let current: Listener | undefined;
  let cancel: (() => void) | undefined;
  let failures = 0;

  function attempt(): void {
    cancel = undefined;
    try {
      current = listen(address, port, options.handler, { dualStack: true, failed: broken });
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      if (options.hardFail)
        throw new Error(`${field}: ${reason}; exiting because bindAddressHardFail is true`, { cause });
      complain(reason);
      cancel = options.schedule(options.retryMs, attempt);
      return;
    }
    if (failures > 0) log.info("Listening at last", { field, address, port, failures });
    options.listening?.(current);
  }

  function broken(error: Error): void {
    log.error("HTTP handler failed, this is a bug", { field, reason: error.message });
  }

  function complain(reason: string): void {
    failures++;
    const fields = { field, reason, failures, retrySeconds: options.retryMs / 1000 };
    // Loud at 1, 2, 4, 8 … failures: never silent for long, never a flood.
    if ((failures & (failures - 1)) === 0) log.error("Server cannot listen, will keep trying", fields);
    else log.debug(2, "Server cannot listen, will keep trying", fields);
  }

  attempt();
  return {
    current: () => current,
    close() {
      cancel?.();
      current?.close();
      current = undefined;
    },
  };
}
