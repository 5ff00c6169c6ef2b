/** Every chain that kube-proxy was recorded to make is known to be its mode's, and no chain of others is. */
import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { modeOwns } from "../../src/app/cleanup-chains.ts";
import { aimAt, hostTools } from "../../src/app/cleanup-variant.ts";
import type { Table } from "../../src/backends/iptables/names.ts";
import { IPv4, IPv6 } from "../../src/model/family.ts";

const cases = `${import.meta.dir}/../conformance/cases`;

/** `nat KUBE-SERVICES` of all recordings of a mode. */
function recordedChains(mode: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const name of readdirSync(cases)) {
    for (const file of readdirSync(`${cases}/${name}`).includes(mode) ? readdirSync(`${cases}/${name}/${mode}`) : []) {
      if (!/\.ip6?tables$/.test(file)) continue;
      let table = "";
      for (const line of readFileSync(`${cases}/${name}/${mode}/${file}`, "utf8").split("\n")) {
        if (line.startsWith("*")) table = line.slice(1);
        if (line.startsWith(":KUBE-")) found.add(`${table} ${line.slice(1, line.indexOf(" "))}`);
      }
    }
  }
  return found;
}

test.each(["iptables", "ipvs"] as const)(
  "%s mode owns all that was recorded of it but KUBE-FIREWALL, which is the kubelet's too",
  (mode) => {
    const recorded = recordedChains(mode);
    expect(recorded.size).toBeGreaterThan(10);
    const strangers = [...recorded].filter((item) => {
      const [table = "", chain = ""] = item.split(" ");
      return !modeOwns(mode, table as Table, chain);
    });
    expect(strangers).toEqual(mode === "iptables" ? ["filter KUBE-FIREWALL"] : []);
  },
);

test.each([
  "KUBE-ROUTER-INPUT",
  "KUBE-POD-FW-ABCDEFGHIJKLMNOP",
  "KUBE-NWPLCY-ABCDEFGHIJKLMNOP",
  "KUBE-HOSTPORTS",
  "KUBE-HP-ABCDEFGHIJKLMNOP",
  "KUBE-KUBELET-CANARY",
  "KUBE-SVC-short",
  "PREROUTING",
])("%s is nobody's of ours", (chain) => {
  for (const mode of ["iptables", "ipvs", "nftables"] as const)
    for (const table of ["nat", "filter", "mangle"] as const) expect(modeOwns(mode, table, chain)).toBe(false);
});

describe("variants of iptables", () => {
  const step = { kind: "exec", tool: "ip6tables-save", args: ["-t", "nat"], about: "" } as const;
  const none = () => new Set<string>();

  test("tools by name, the default's variant first; the default's own name where the other is missing", () => {
    const names = (tools: ReturnType<typeof hostTools>) => tools.map((t) => t.prefix(IPv6));
    expect(names(hostTools("legacy", () => true, none))).toEqual(["ip6tables-legacy", "ip6tables-nft"]);
    expect(names(hostTools("nft", () => true, none))).toEqual(["ip6tables-nft", "ip6tables-legacy"]);
    expect(names(hostTools("nft", () => false, none))).toEqual(["ip6tables"]);
    expect(names(hostTools(undefined, () => false, none))).toEqual([]);
  });

  test("a legacy table that does not exist is not asked for: that would make it", () => {
    const [legacy] = hostTools(
      "legacy",
      () => true,
      (family) => new Set(family === IPv4 ? ["nat"] : []),
    );
    if (legacy === undefined) throw new Error("no tools");
    expect(aimAt(step, IPv6, legacy)).toBeUndefined();
    expect(aimAt({ ...step, tool: "iptables-save" }, IPv4, legacy)?.tool).toBe("iptables-legacy-save");
    expect(aimAt({ ...step, tool: "iptables-save", args: ["-t", "mangle"] }, IPv4, legacy)).toBeUndefined();
    expect(aimAt({ ...step, tool: "iptables-restore", args: ["--noflush"] }, IPv4, legacy)?.tool).toBe(
      "iptables-legacy-restore",
    );
  });
});
