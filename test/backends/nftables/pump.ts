/**
 * Sends UDP packets to one address as fast as it can until killed: `bun pump.ts ADDRESS PORT SECONDS`, inside the namespace
 * under test. Through libc: what is dropped on the way out is no error that is worth an exception.
 */
import { dlopen, ptr } from "bun:ffi";

const [address = "", port = "0", seconds = "1"] = process.argv.slice(2);
const libc = dlopen("libc.so.6", {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  sendto: { args: ["i32", "ptr", "u64", "i32", "ptr", "u32"], returns: "i64" },
});
const inet = 2;
const datagram = 2;
const target = new Uint8Array(16);
new DataView(target.buffer).setUint16(0, inet, true);
new DataView(target.buffer).setUint16(2, Number(port), false);
target.set(address.split(".").map(Number), 4);
const data = new Uint8Array(8);
const [at, from] = [ptr(target), ptr(data)];
const fd = libc.symbols.socket(inet, datagram, 0);
const end = performance.now() + Number(seconds) * 1000;
while (performance.now() < end) for (let i = 0; i < 200; i++) libc.symbols.sendto(fd, from, data.length, 0, at, 16);
