import { describe, expect, test } from "bun:test";
import {
  parseConnections,
  parseServerLine,
  printServerLine,
  type ServerLine,
  serverKey,
} from "../../src/tools/ipvsadm.ts";
import { recordedLines } from "./ipvsadm-recordings.ts";

describe("ipvsadm lines", () => {
  test("every recorded line is printed as it was read", () => {
    const lines = recordedLines(".ipvs").map((l) => l.trim());
    expect(lines.length).toBeGreaterThan(1000);
    for (const line of lines) {
      const parsed = parseServerLine(line);
      expect(parsed === undefined ? undefined : printServerLine(parsed)).toBe(`${line}\n`);
    }
  });

  test("print and parse are inverse for every kind of line", () => {
    const server = { protocol: "sctp", ip: "fd00::1", port: 80 } as const;
    const options = { scheduler: "mh", schedulerFlags: ["mh-fallback", "mh-port"], persistence: 300, netmask: "64" };
    const lines: readonly ServerLine[] = [
      { kind: "-A", server, options },
      { kind: "-E", server, options: { ...options, schedulerFlags: [], persistence: 0, netmask: undefined } },
      { kind: "-D", server },
      { kind: "-a", server, real: "[fd00::2]:8080", forward: "-m", weight: 1 },
      { kind: "-e", server, real: "[fd00::2]:8080", forward: "-g", weight: 0 },
      { kind: "-d", server, real: "[fd00::2]:8080" },
    ];
    for (const line of lines) expect(parseServerLine(printServerLine(line))).toEqual(line);
  });

  test("firewall marks and headings are no servers by address", () => {
    expect(parseServerLine("-A -f 1 -s rr")).toBeUndefined();
    expect(parseServerLine("IP Virtual Server version 1.2.1 (size=4096)")).toBeUndefined();
    expect(parseServerLine("")).toBeUndefined();
  });

  test("connections are active and inactive ones together", () => {
    // Output of ipvsadm 1.31 -Ln --exact.
    const output = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn
TCP  10.0.0.1:80 rr persistent 300
  -> 10.1.0.1:8080                Masq    1      2          3         
FWM  1 rr
  -> 10.1.0.2:8080                Masq    1      9          9         
TCP  [fd00::1]:80 rr
  -> [fd00::2]:8080               Masq    0      0          0         
`;
    expect([...parseConnections(output)]).toEqual([
      ["tcp 10.0.0.1:80 10.1.0.1:8080", 5],
      ["tcp [fd00::1]:80 [fd00::2]:8080", 0],
    ]);
    expect(serverKey({ protocol: "tcp", ip: "fd00::1", port: 80 })).toBe("tcp [fd00::1]:80");
  });
});
