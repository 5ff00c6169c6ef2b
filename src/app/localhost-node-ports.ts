/** TCP listeners on a loopback address for node ports (nftables mode, feature gate): each connection goes to an endpoint. */
import { connect, createServer, type Server, type Socket } from "node:net";
import { type LocalhostPort, localhostPorts, orderOfTries } from "../backends/nftables/localhost.ts";
import type { Context } from "../model/context.ts";
import type { Log } from "../model/log.ts";
import type { Endpoint, Plan } from "../model/plan.ts";

export interface LocalhostOptions {
  readonly context: Pick<Context, "family">;
  readonly log: Log;
  /** Milliseconds that an endpoint has to answer; default 2,000. */
  readonly connectMs?: number;
}

/** An endpoint that does not answer is followed by another, this many in all. */
const TRIES = 8;
/** A port that another process holds is tried again with the plans that follow, but not more often than this. */
const RETRY_MS = 10_000;

interface Listener {
  port: LocalhostPort;
  readonly server: Server;
  readonly sockets: Set<Socket>;
  remembered: { readonly endpoint: Endpoint; readonly at: number } | undefined;
}

/** One family's listeners; follows the plans that were applied. */
export class LocalhostNodePorts {
  readonly #options: LocalhostOptions;
  readonly #listeners = new Map<number, Listener>();
  /** Node port → when it could not be opened (milliseconds). */
  readonly #refused = new Map<number, number>();
  #failures = 0;

  constructor(options: LocalhostOptions) {
    this.#options = options;
  }

  /** Open listeners. */
  get listeners(): number {
    return [...this.#listeners.values()].filter(({ server }) => server.listening).length;
  }

  /** Listeners that could not be made, since start. */
  get failures(): number {
    return this.#failures;
  }

  /** Opens and closes listeners so that they are those of the plan. Connections of a Service that stays go on. */
  follow(plan: Plan): void {
    const wanted = localhostPorts(plan);
    for (const [nodePort, listener] of this.#listeners) if (!wanted.has(nodePort)) this.#close(nodePort, listener);
    for (const nodePort of this.#refused.keys()) if (!wanted.has(nodePort)) this.#refused.delete(nodePort);
    for (const [nodePort, port] of wanted) {
      const listener = this.#listeners.get(nodePort);
      if (listener !== undefined) listener.port = port;
      else if (performance.now() - (this.#refused.get(nodePort) ?? Number.NEGATIVE_INFINITY) >= RETRY_MS)
        this.#open(port);
    }
  }

  close(): void {
    for (const [nodePort, listener] of this.#listeners) this.#close(nodePort, listener);
  }

  // --- internal ---

  #open(port: LocalhostPort): void {
    const server = createServer({ allowHalfOpen: true, pauseOnConnect: true });
    const listener: Listener = { port, server, sockets: new Set(), remembered: undefined };
    this.#listeners.set(port.nodePort, listener);
    server.on("connection", (client) => void this.#serve(listener, client));
    server.on("error", (error) => this.#failed(port, error));
    server.listen({ host: this.#host, port: port.nodePort, exclusive: true });
  }

  #failed({ nodePort, name }: LocalhostPort, error: Error): void {
    const first = !this.#refused.has(nodePort);
    this.#failures++;
    this.#refused.set(nodePort, performance.now());
    this.#listeners.delete(nodePort);
    const fields = { servicePort: name, address: `${this.#host}:${nodePort}`, reason: error.message };
    if (first)
      this.#options.log.error("Cannot listen for a node port on localhost: does another process hold it?", fields);
  }

  #close(nodePort: number, { server, sockets }: Listener): void {
    this.#listeners.delete(nodePort);
    server.close();
    for (const socket of sockets) socket.destroy();
  }

  get #host(): string {
    return this.#options.context.family.name === "IPv4" ? "127.0.0.1" : "::1";
  }

  async #serve(listener: Listener, client: Socket): Promise<void> {
    const { sockets } = listener;
    track(sockets, client);
    const order = orderOfTries(listener.port, listener.remembered, Date.now(), Math.random).slice(0, TRIES);
    for (const endpoint of order) {
      const server = await reach(endpoint, this.#options.connectMs ?? 2_000);
      if (server === undefined) continue;
      if (client.destroyed) return void server.destroy();
      track(sockets, server);
      listener.remembered = { endpoint, at: Date.now() };
      join(client, server);
      join(server, client);
      return;
    }
    // Reset, not an orderly end: nothing was served.
    client.resetAndDestroy();
    this.#options.log.debug(2, "No endpoint answered for a node port on localhost", {
      servicePort: listener.port.name,
    });
  }
}

function track(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  // Told by `close`; an error nobody listens to would end the process.
  socket.on("error", () => undefined);
}

function join(from: Socket, to: Socket): void {
  from.pipe(to);
  // A side that broke off takes the other along; an orderly end (half close) has been passed on by pipe.
  from.on("close", (failed) => {
    if (failed || !from.readableEnded) to.destroy();
  });
}

/** A connection to the endpoint, or undefined when it refuses or says nothing in time. */
function reach({ ip, port }: Endpoint, ms: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ host: ip, port, allowHalfOpen: true });
    const timer = setTimeout(() => done(undefined), ms);
    const done = (value: Socket | undefined): void => {
      clearTimeout(timer);
      socket.off("error", onError);
      if (value === undefined) {
        socket.on("error", () => undefined);
        socket.destroy();
      }
      resolve(value);
    };
    const onError = (): void => done(undefined);
    socket.once("connect", () => done(socket));
    socket.on("error", onError);
  });
}
