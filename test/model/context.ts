/** A context for tests: node-1 in zone-a, as in the recorded cases. */
import type { Context, ProxyMode } from "../../src/model/context.ts";
import { type FamilyName, families } from "../../src/model/family.ts";

export function testContext(mode: ProxyMode, family: FamilyName = "IPv4", changes: Partial<Context> = {}): Context {
  const four = family === "IPv4";
  const nodeIP = four ? "192.168.0.2" : "fd00:192:168::2";
  return {
    mode,
    family: families[family],
    nodeName: "node-1",
    nodeIP,
    zone: "zone-a",
    detectLocal: { kind: "cidr", cidr: four ? "10.244.0.0/16" : "fd00:10:244::/56" },
    nodePorts: { any: mode !== "nftables", addresses: [nodeIP], loopback: mode !== "nftables" },
    masqueradeAll: false,
    masqueradeMark: 0x4000,
    localhostNodePorts: mode === "iptables" && four,
    ipvs: { scheduler: "rr", strictARP: false, excludeCIDRs: [], tcpTimeout: 0, tcpFinTimeout: 0, udpTimeout: 0 },
    facts: { iptables: "nft", randomFully: true, nfacct: true, tcpBeLiberal: false, kernel: [6, 1] },
    gates: { nftablesCompact: false },
    ...changes,
  };
}
