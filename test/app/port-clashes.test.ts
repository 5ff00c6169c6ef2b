import { expect, test } from "bun:test";
import { listeningPorts, parseRanges } from "../../src/app/port-clashes.ts";

const tcp = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1
   1: 0100007F:0050 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 12346 1
`;

test("listening TCP ports, not connections", () => {
  expect(listeningPorts(tcp, "tcp")).toEqual([8080]);
  expect(listeningPorts("", "tcp")).toEqual([]);
});

test("unconnected UDP ports", () => {
  expect(listeningPorts(tcp.replace(" 0A ", " 07 "), "udp")).toEqual([8080]);
});

test("reserved port ranges", () => {
  expect(parseRanges("8080,9000-9100\n")).toEqual([
    [8080, 8080],
    [9000, 9100],
  ]);
  expect(parseRanges("\n")).toEqual([]);
});
