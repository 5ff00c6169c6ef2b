/** The socket calls of libc, each with its errno: Bun's own sockets can neither change namespace nor speak raw SCTP. */
import { dlopen, ptr, read, FFIType as T } from "bun:ffi";

const { symbols: c } = dlopen("libc.so.6", {
  setns: { args: [T.i32, T.i32], returns: T.i32 },
  socket: { args: [T.i32, T.i32, T.i32], returns: T.i32 },
  bind: { args: [T.i32, T.ptr, T.u32], returns: T.i32 },
  connect: { args: [T.i32, T.ptr, T.u32], returns: T.i32 },
  listen: { args: [T.i32, T.i32], returns: T.i32 },
  accept4: { args: [T.i32, T.ptr, T.ptr, T.i32], returns: T.i32 },
  send: { args: [T.i32, T.ptr, T.u64, T.i32], returns: T.i64_fast },
  sendto: { args: [T.i32, T.ptr, T.u64, T.i32, T.ptr, T.u32], returns: T.i64_fast },
  recvfrom: { args: [T.i32, T.ptr, T.u64, T.i32, T.ptr, T.ptr], returns: T.i64_fast },
  getsockname: { args: [T.i32, T.ptr, T.ptr], returns: T.i32 },
  setsockopt: { args: [T.i32, T.i32, T.i32, T.ptr, T.u32], returns: T.i32 },
  getsockopt: { args: [T.i32, T.i32, T.i32, T.ptr, T.ptr], returns: T.i32 },
  poll: { args: [T.ptr, T.u64, T.i32], returns: T.i32 },
  close: { args: [T.i32], returns: T.i32 },
  __errno_location: { args: [], returns: T.ptr },
});

export const errno = {
  EPERM: 1,
  EAGAIN: 11,
  EINVAL: 22,
  EPIPE: 32,
  ENOPROTOOPT: 92,
  ENETUNREACH: 101,
  ECONNRESET: 104,
  ETIMEDOUT: 110,
  ECONNREFUSED: 111,
  EHOSTUNREACH: 113,
  EINPROGRESS: 115,
} as const;

export const POLLIN = 1;
export const POLLOUT = 4;
export const POLLERR = 8;
export const POLLHUP = 16;

export type SocketKind = "tcp" | "udp" | "sctp";

const AF_INET = 2;
const AF_INET6 = 10;
const NONBLOCK = 0o4000;
const CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;
const MSG_ERRQUEUE = 0x2000;
const SOL_SOCKET = 1;

/** A failed call: its name and errno. */
export class SocketError extends Error {
  constructor(
    readonly call: string,
    readonly code: number,
  ) {
    super(`${call}: errno ${code}`);
  }
}

function lastErrno(): number {
  const at = c.__errno_location();
  return at === null ? 0 : read.i32(at, 0);
}

function checked(call: string, result: number): number {
  if (result < 0) {
    throw new SocketError(call, lastErrno());
  }
  return result;
}

/** The 16 bytes of an IPv6 address, or the 4 of an IPv4 one. */
export function addressBytes(ip: string): Uint8Array {
  if (!ip.includes(":")) {
    return Uint8Array.from(ip.split("."), Number);
  }
  const [head = "", tail] = ip.split("::");
  const front = head === "" ? [] : head.split(":");
  const back = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...front, ...Array(8 - front.length - back.length).fill("0"), ...back];
  return Uint8Array.from(groups.flatMap((g) => [Number.parseInt(g, 16) >> 8, Number.parseInt(g, 16) & 255]));
}

/** Text of address bytes, in the canonical form. */
export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) {
    return bytes.join(".");
  }
  const groups: string[] = [];
  for (let i = 0; i < 16; i += 2) {
    groups.push((((bytes[i] ?? 0) << 8) | (bytes[i + 1] ?? 0)).toString(16));
  }
  return new URL(`http://[${groups.join(":")}]`).hostname.slice(1, -1);
}

export interface Address {
  readonly ip: string;
  readonly port: number;
}

function encode({ ip, port }: Address): Uint8Array {
  const bytes = addressBytes(ip);
  const out = new Uint8Array(bytes.length === 4 ? 16 : 28);
  out[0] = bytes.length === 4 ? AF_INET : AF_INET6;
  out[2] = port >> 8;
  out[3] = port & 255;
  out.set(bytes, bytes.length === 4 ? 4 : 8);
  return out;
}

function decode(raw: Uint8Array): Address {
  const port = ((raw[2] ?? 0) << 8) | (raw[3] ?? 0);
  return { ip: addressText(raw[0] === AF_INET ? raw.slice(4, 8) : raw.slice(8, 24)), port };
}

/** Moves this thread into a network namespace. */
export function enter(namespaceFd: number): void {
  checked("setns", c.setns(namespaceFd, 0x40000000));
}

/** A non-blocking socket in the thread's namespace. `sctp` is a raw one: few kernels have SCTP, all can forward it. */
export function open(kind: SocketKind, ip: string): number {
  const family = ip.includes(":") ? AF_INET6 : AF_INET;
  const type = { tcp: 1, udp: 2, sctp: 3 }[kind] | NONBLOCK | CLOEXEC;
  const fd = checked("socket", c.socket(family, type, kind === "sctp" ? 132 : 0));
  if (family === AF_INET6 && kind !== "sctp") {
    setOption(fd, 41, 26, 1); // IPV6_V6ONLY
  }
  if (kind === "sctp") {
    // A raw socket is told of errors for its neighbours' packets too: IP_RECVERR, IPV6_RECVERR keep the packet itself.
    setOption(fd, family === AF_INET6 ? 41 : 0, family === AF_INET6 ? 25 : 11, 1);
  }
  return fd;
}

export function setOption(fd: number, level: number, name: number, value: number): void {
  checked("setsockopt", c.setsockopt(fd, level, name, ptr(Int32Array.of(value)), 4));
}

export function bind(fd: number, address: Address): void {
  const raw = encode(address);
  setOption(fd, SOL_SOCKET, 2, 1); // SO_REUSEADDR
  checked("bind", c.bind(fd, ptr(raw), raw.length));
}

export function listen(fd: number): void {
  checked("listen", c.listen(fd, 512));
}

/** 0, or the errno; EINPROGRESS is the usual answer for TCP. */
export function connect(fd: number, address: Address): number {
  const raw = encode(address);
  return c.connect(fd, ptr(raw), raw.length) < 0 ? lastErrno() : 0;
}

/** The next connection, or undefined when none waits. */
export function accept(fd: number): { readonly fd: number; readonly peer: Address } | undefined {
  const raw = new Uint8Array(28);
  const connection = c.accept4(fd, ptr(raw), ptr(Uint32Array.of(28)), NONBLOCK | CLOEXEC);
  return connection < 0 ? undefined : { fd: connection, peer: decode(raw) };
}

export function localAddress(fd: number): Address {
  const raw = new Uint8Array(28);
  checked("getsockname", c.getsockname(fd, ptr(raw), ptr(Uint32Array.of(28))));
  return decode(raw);
}

/** 0, or the errno of a failed send. */
export function send(fd: number, data: Uint8Array, to?: Address): number {
  const raw = to === undefined ? undefined : encode(to);
  const sent =
    raw === undefined
      ? c.send(fd, ptr(data), data.length, MSG_NOSIGNAL)
      : c.sendto(fd, ptr(data), data.length, MSG_NOSIGNAL, ptr(raw), raw.length);
  return Number(sent) < 0 ? lastErrno() : 0;
}

export type Received =
  | { readonly kind: "data"; readonly data: Uint8Array; readonly from: Address }
  | { readonly kind: "error"; readonly errno: number };

/** The next packet that an ICMP error came back for, from its transport header on; the socket must be raw. */
export function receiveRejected(fd: number): Uint8Array | undefined {
  const buffer = new Uint8Array(2048);
  const length = Number(c.recvfrom(fd, ptr(buffer), buffer.length, MSG_ERRQUEUE, null, null));
  return length < 0 ? undefined : buffer.slice(0, length);
}

export function receive(fd: number): Received {
  const buffer = new Uint8Array(2048);
  const from = new Uint8Array(28);
  const length = Number(c.recvfrom(fd, ptr(buffer), buffer.length, 0, ptr(from), ptr(Uint32Array.of(28))));
  return length < 0
    ? { kind: "error", errno: lastErrno() }
    : { kind: "data", data: buffer.slice(0, length), from: decode(from) };
}

/** The pending error of a socket, cleared by reading it. */
export function pendingError(fd: number): number {
  const value = new Int32Array(1);
  checked("getsockopt", c.getsockopt(fd, SOL_SOCKET, 4, ptr(value), ptr(Uint32Array.of(4))));
  return value[0] ?? 0;
}

export function close(fd: number): void {
  c.close(fd);
}

/** Waits up to `ms` for events; returns them in the order of `wanted`. */
export function poll(wanted: readonly { readonly fd: number; readonly events: number }[], ms: number): Uint16Array {
  const raw = new Uint8Array(Math.max(8, wanted.length * 8));
  const view = new DataView(raw.buffer);
  for (const [i, { fd, events }] of wanted.entries()) {
    view.setInt32(i * 8, fd, true);
    view.setUint16(i * 8 + 4, events, true);
  }
  c.poll(ptr(raw), wanted.length, ms);
  return Uint16Array.from(wanted, (_, i) => view.getUint16(i * 8 + 6, true));
}
