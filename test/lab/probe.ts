/** One connection attempt and what became of it. */
import {
  bind,
  close,
  connect,
  errno,
  open,
  POLLERR,
  POLLIN,
  POLLOUT,
  pendingError,
  receive,
  receiveRejected,
  type SocketKind,
  send,
} from "./libc.ts";
import { initPacket, parseSctp, withoutHeader } from "./sctp.ts";
import type { Wire } from "./wire.ts";

export interface Attempt {
  readonly namespace: string;
  readonly kind: SocketKind;
  /** Source address; absent: the kernel chooses. */
  readonly source?: string;
  readonly sourcePort?: number;
  readonly ip: string;
  readonly port: number;
  /** Milliseconds after which silence counts as dropped. */
  readonly patience: number;
}

/** `by`: the address that answered. `source`: the client's address as that server saw it. */
export type Outcome =
  | { readonly kind: "answered"; readonly by: string; readonly source: string }
  | { readonly kind: "refused" }
  | { readonly kind: "dropped" }
  | { readonly kind: "failed"; readonly errno: number };

/** A flow that stays open, to be asked again. */
export interface Flow {
  readonly outcome: Outcome;
  /** Sends once more on the same socket. */
  ask(patience: number): Promise<Outcome>;
  close(): void;
}

const decoder = new TextDecoder();
let nextPort = 20000;

function takePort(): number {
  nextPort = nextPort === 29999 ? 20000 : nextPort + 1;
  return nextPort;
}

/** Connects, reads the answer, closes. Never throws for what the network does. */
export async function probe(wire: Wire, attempt: Attempt): Promise<Outcome> {
  const flow = await openFlow(wire, attempt);
  flow.close();
  return flow.outcome;
}

/** Connects and reads the answer; the socket stays open. */
export async function openFlow(wire: Wire, attempt: Attempt): Promise<Flow> {
  const { kind, ip } = attempt;
  const fd = wire.inside(attempt.namespace, () => open(kind, ip));
  const sourcePort = attempt.sourcePort ?? (kind === "sctp" ? takePort() : 0);
  const bound = { ...attempt, sourcePort };
  if (attempt.source !== undefined || sourcePort !== 0) {
    bind(fd, { ip: attempt.source ?? (ip.includes(":") ? "::" : "0.0.0.0"), port: kind === "sctp" ? 0 : sourcePort });
  }
  const code = connect(fd, { ip, port: kind === "sctp" ? 0 : attempt.port });
  const message = kind === "sctp" ? initPacket(sourcePort, attempt.port, sourcePort) : Uint8Array.of(63, 10);
  const immediate = code === 0 || code === errno.EINPROGRESS ? undefined : failure(code);
  const outcome = immediate ?? (await listenFor(wire, fd, bound, kind === "tcp" ? undefined : message));
  return {
    outcome,
    ask: (patience) => listenFor(wire, fd, { ...bound, patience }, message),
    close: () => close(fd),
  };
}

function failure(code: number): Outcome {
  if (code === errno.ECONNREFUSED) {
    return { kind: "refused" };
  }
  return code === errno.ETIMEDOUT ? { kind: "dropped" } : { kind: "failed", errno: code };
}

/** Sends `message` (a packet filter's EPERM is no verdict: refused and dropped look alike) and waits for the answer. */
function listenFor(wire: Wire, fd: number, attempt: Attempt, message: Uint8Array | undefined): Promise<Outcome> {
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const timer = setTimeout(() => settle({ kind: "dropped" }), attempt.patience);
  const settle = (outcome: Outcome): void => {
    clearTimeout(timer);
    wire.forget(fd);
    resolve(outcome);
  };
  const sent = message === undefined ? 0 : send(fd, message);
  if (sent !== 0 && sent !== errno.EPERM && attempt.kind !== "sctp") {
    settle(failure(sent));
    return promise;
  }
  let connecting = attempt.kind === "tcp" && message === undefined;
  const handle = (events: number): void => {
    if (connecting) {
      const code = pendingError(fd);
      connecting = false;
      if (code !== 0) {
        settle(failure(code));
      } else {
        wire.watch(fd, POLLIN, handle);
      }
      return;
    }
    const rejected = attempt.kind === "sctp" && (events & POLLERR) !== 0;
    const outcome = rejected ? readRejection(fd, attempt) : readAnswer(fd, attempt);
    if (outcome !== undefined) {
      settle(outcome);
    }
  };
  wire.watch(fd, connecting ? POLLOUT : POLLIN, handle);
  return promise;
}

/** Which of the errors of a raw socket was about our packet; undefined: none. */
function readRejection(fd: number, attempt: Attempt): Outcome | undefined {
  const code = pendingError(fd);
  for (let packet = receiveRejected(fd); packet !== undefined; packet = receiveRejected(fd)) {
    if ((((packet[0] ?? 0) << 8) | (packet[1] ?? 0)) === attempt.sourcePort) {
      return failure(code === 0 ? errno.ECONNREFUSED : code);
    }
  }
  return undefined;
}

function readAnswer(fd: number, attempt: Attempt): Outcome | undefined {
  const got = receive(fd);
  if (got.kind === "error") {
    return got.errno === errno.EAGAIN ? undefined : failure(got.errno);
  }
  if (got.data.length === 0) {
    return { kind: "failed", errno: errno.EPIPE };
  }
  let text = decoder.decode(got.data);
  if (attempt.kind === "sctp") {
    const packet = parseSctp(withoutHeader(got.data, attempt.ip));
    // A raw socket gets the answers of its neighbours too.
    if (packet?.chunk !== 2 || packet.sourcePort !== attempt.port || packet.port !== attempt.sourcePort) {
      return undefined;
    }
    text = packet.cookie;
  }
  const [by = "", source = ""] = (text.trim().split("\n").pop() ?? "").split(" ");
  return { kind: "answered", by, source };
}
