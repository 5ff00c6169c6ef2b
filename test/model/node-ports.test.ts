import { describe, expect, test } from "bun:test";
import type { NodePortAddresses, ProxyMode } from "../../src/model/context.ts";
import { IPv4, IPv6 } from "../../src/model/family.ts";
import { resolveNodePorts } from "../../src/model/node-ports.ts";

const nodeIPs = ["192.168.0.2", "fd00:192:168::2"];
const localAddresses = ["127.0.0.1", "::1", "192.168.0.2", "172.16.0.2", "fd00:192:168::2", "fe80::1"];

interface Row {
  readonly about: string;
  readonly policy: readonly string[];
  readonly mode: ProxyMode;
  readonly v4: NodePortAddresses;
  readonly v6: NodePortAddresses;
}

const any4: NodePortAddresses = { any: true, addresses: ["172.16.0.2", "192.168.0.2"], loopback: true };
const any6: NodePortAddresses = { any: true, addresses: ["fd00:192:168::2"], loopback: true };
const none: NodePortAddresses = { any: false, addresses: [], loopback: false };
const only = (...addresses: string[]): NodePortAddresses => ({ any: false, addresses, loopback: false });
const and127 = (...addresses: string[]): NodePortAddresses => ({ any: false, addresses, loopback: true });

const rows: readonly Row[] = [
  { about: "unset in iptables: any", policy: [], mode: "iptables", v4: any4, v6: any6 },
  { about: "unset in ipvs: any", policy: [], mode: "ipvs", v4: any4, v6: any6 },
  {
    about: "unset in nftables: primary",
    policy: [],
    mode: "nftables",
    v4: only("192.168.0.2"),
    v6: only("fd00:192:168::2"),
  },
  {
    about: "primary in iptables",
    policy: ["primary"],
    mode: "iptables",
    v4: only("192.168.0.2"),
    v6: only("fd00:192:168::2"),
  },
  { about: "all", policy: ["all"], mode: "nftables", v4: any4, v6: any6 },
  { about: "localhost", policy: ["localhost"], mode: "nftables", v4: and127(), v6: and127() },
  {
    about: "primary and localhost",
    policy: ["primary", "localhost"],
    mode: "nftables",
    v4: and127("192.168.0.2"),
    v6: and127("fd00:192:168::2"),
  },
  {
    about: "zero CIDR of one family leaves the other open (recorded)",
    policy: ["0.0.0.0/0"],
    mode: "nftables",
    v4: any4,
    v6: any6,
  },
  {
    about: "CIDR of one family leaves the other open",
    policy: ["172.16.0.0/12"],
    mode: "iptables",
    v4: only("172.16.0.2"),
    v6: any6,
  },
  {
    about: "CIDRs of both families",
    policy: ["172.16.0.0/12", "fd00:192::/32"],
    mode: "iptables",
    v4: only("172.16.0.2"),
    v6: only("fd00:192:168::2"),
  },
  {
    about: "primary and a CIDR",
    policy: ["primary", "172.16.0.2/32"],
    mode: "nftables",
    v4: only("172.16.0.2", "192.168.0.2"),
    v6: only("fd00:192:168::2"),
  },
  {
    about: "one loopback address counts as loopback",
    policy: ["127.0.0.1/32", "::1/128"],
    mode: "iptables",
    v4: and127(),
    v6: and127(),
  },
  {
    about: "a CIDR around loopback",
    policy: ["126.0.0.0/7", "fe80::/10"],
    mode: "iptables",
    v4: and127(),
    v6: only("fe80::1"),
  },
  {
    about: "a CIDR without any address here",
    policy: ["198.51.100.0/24", "2001:db8::/32"],
    mode: "ipvs",
    v4: none,
    v6: none,
  },
  {
    about: "CIDR text as a user writes it",
    policy: ["172.16.9.9/12", "FD00:192::1/32"],
    mode: "ipvs",
    v4: only("172.16.0.2"),
    v6: only("fd00:192:168::2"),
  },
  { about: "all wins over the rest", policy: ["primary", "all"], mode: "ipvs", v4: any4, v6: any6 },
];

describe("resolveNodePorts", () => {
  test.each(rows)("$about", ({ policy, mode, v4, v6 }) => {
    expect(resolveNodePorts({ policy, nodeIPs, localAddresses, family: IPv4, mode })).toEqual(v4);
    expect(resolveNodePorts({ policy, nodeIPs, localAddresses, family: IPv6, mode })).toEqual(v6);
  });

  test("a node IP that no interface has is no address to answer on", () => {
    const inputs = { policy: ["primary"], nodeIPs: ["203.0.113.1"], localAddresses, mode: "nftables" } as const;
    expect(resolveNodePorts({ ...inputs, family: IPv4 })).toEqual(none);
  });

  test("primary on a single-stack node opens nothing in the other family", () => {
    const inputs = { policy: ["primary"], nodeIPs: ["192.168.0.2"], localAddresses, mode: "nftables" } as const;
    expect(resolveNodePorts({ ...inputs, family: IPv6 })).toEqual(none);
  });
});
