/** Echo servers: whoever connects is told the address that answered and the source address it was seen with. */
import { accept, bind, listen, localAddress, open, POLLIN, receive, type SocketKind, send } from "./libc.ts";
import { initAckPacket, parseSctp, withoutHeader } from "./sctp.ts";
import type { Wire } from "./wire.ts";

export interface EchoAddress {
  readonly ip: string;
  readonly port: number;
  readonly kinds: readonly SocketKind[];
}

const encoder = new TextEncoder();

/** Starts the servers of one namespace. TCP on `0.0.0.0` or `::` tells the local address of each connection. */
export function startEcho(wire: Wire, namespace: string, addresses: readonly EchoAddress[]): void {
  for (const { ip, port, kinds } of addresses) {
    for (const kind of kinds) {
      const fd = wire.inside(namespace, () => open(kind, ip));
      bind(fd, { ip, port: kind === "sctp" ? 0 : port });
      if (kind === "tcp") {
        serveTcp(wire, fd);
      } else if (kind === "udp") {
        serveUdp(wire, fd, ip);
      } else {
        serveSctp(wire, fd, ip, port);
      }
    }
  }
}

function serveTcp(wire: Wire, listener: number): void {
  listen(listener);
  wire.watch(listener, POLLIN, () => {
    for (let next = accept(listener); next !== undefined; next = accept(listener)) {
      const { fd, peer } = next;
      const text = encoder.encode(`${localAddress(fd).ip} ${peer.ip}\n`);
      send(fd, text);
      wire.watch(fd, POLLIN, () => {
        const got = receive(fd);
        if (got.kind === "error" || got.data.length === 0) {
          wire.drop(fd);
        } else {
          send(fd, text);
        }
      });
    }
  });
}

function serveUdp(wire: Wire, fd: number, ip: string): void {
  wire.watch(fd, POLLIN, () => {
    const got = receive(fd);
    if (got.kind === "data") {
      send(fd, encoder.encode(`${ip} ${got.from.ip}\n`), got.from);
    }
  });
}

function serveSctp(wire: Wire, fd: number, ip: string, port: number): void {
  wire.watch(fd, POLLIN, () => {
    const got = receive(fd);
    const packet = got.kind === "data" ? parseSctp(withoutHeader(got.data, ip)) : undefined;
    if (got.kind === "data" && packet?.chunk === 1 && packet.port === port) {
      send(fd, initAckPacket(packet, `${ip} ${got.from.ip}`), { ip: got.from.ip, port: 0 });
    }
  });
}
