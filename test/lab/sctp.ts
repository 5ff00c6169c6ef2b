/** The first two packets of an SCTP association, enough to see where it goes: INIT, and INIT-ACK with a text as its cookie. */

const table = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) {
    c = c & 1 ? 0x82f63b78 ^ (c >>> 1) : c >>> 1;
  }
  return c;
});

function crc32c(data: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of data) {
    crc = (table[(crc ^ byte) & 255] ?? 0) ^ (crc >>> 8);
  }
  return ~crc >>> 0;
}

export interface SctpPacket {
  readonly sourcePort: number;
  readonly port: number;
  /** 1: INIT, 2: INIT-ACK, others as in RFC 9260. */
  readonly chunk: number;
  /** The initiate tag of an INIT. */
  readonly tag: number;
  /** Text of the cookie of an INIT-ACK. */
  readonly cookie: string;
}

function packet(sourcePort: number, port: number, verification: number, chunk: Uint8Array): Uint8Array {
  const out = new Uint8Array(12 + chunk.length);
  const view = new DataView(out.buffer);
  view.setUint16(0, sourcePort);
  view.setUint16(2, port);
  view.setUint32(4, verification);
  out.set(chunk, 12);
  view.setUint32(8, crc32c(out), true);
  return out;
}

function initChunk(type: number, tag: number, cookie: Uint8Array): Uint8Array {
  const parameter = cookie.length === 0 ? 0 : 4 + Math.ceil(cookie.length / 4) * 4;
  const out = new Uint8Array(20 + parameter);
  const view = new DataView(out.buffer);
  view.setUint8(0, type);
  view.setUint16(2, parameter === 0 ? 20 : 24 + cookie.length);
  view.setUint32(4, tag);
  view.setUint32(8, 65536);
  view.setUint16(12, 1);
  view.setUint16(14, 1);
  view.setUint32(16, tag);
  if (parameter > 0) {
    view.setUint16(20, 7); // state cookie
    view.setUint16(22, 4 + cookie.length);
    out.set(cookie, 24);
  }
  return out;
}

export function initPacket(sourcePort: number, port: number, tag: number): Uint8Array {
  return packet(sourcePort, port, 0, initChunk(1, tag, new Uint8Array(0)));
}

/** The answer to an INIT, from the port that it came to. */
export function initAckPacket(init: SctpPacket, cookie: string): Uint8Array {
  return packet(init.port, init.sourcePort, init.tag, initChunk(2, 1, new TextEncoder().encode(cookie)));
}

/** Reads a packet without its IP header; undefined when it is too short. */
export function parseSctp(data: Uint8Array): SctpPacket | undefined {
  if (data.length < 16) {
    return undefined;
  }
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const chunk = view.getUint8(12);
  const init = (chunk === 1 || chunk === 2) && data.length >= 32;
  const cookie = chunk === 2 && data.length > 36 ? data.slice(36, 32 + view.getUint16(34)) : new Uint8Array(0);
  return {
    sourcePort: view.getUint16(0),
    port: view.getUint16(2),
    chunk,
    tag: init ? view.getUint32(16) : 0,
    cookie: new TextDecoder().decode(cookie),
  };
}

/** Raw IPv4 sockets deliver the IP header too, IPv6 ones do not. */
export function withoutHeader(data: Uint8Array, ip: string): Uint8Array {
  return ip.includes(":") ? data : data.slice(((data[0] ?? 0x45) & 15) * 4);
}
