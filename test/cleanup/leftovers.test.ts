/** At start: what other modes left goes after the first sync, what the new mode owns and what is others' stays. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { Node } from "./node.ts";
import { fill, fillForeign } from "./recorded.ts";
import { until } from "./space.ts";

setDefaultTimeout(120_000);

const chainsOf = (saved: string) => saved.match(/^:KUBE-\S+/gm)?.map((line) => line.slice(1)) ?? [];
const ipvsOnly = [
  "KUBE-IPVS-FILTER",
  "KUBE-IPVS-OUT-FILTER",
  "KUBE-LOAD-BALANCER",
  "KUBE-NODE-PORT",
  "KUBE-SOURCE-RANGES-FIREWALL",
];

test.each(["nft", "legacy"] as const)(
  "ipvs mode's chains and sets, iptables-%s, new mode iptables",
  async (variant) => {
    const node = await Node.open(variant);
    const { space } = node;
    try {
      fill(space, "fuzz-0001", "ipvs", variant);
      const proxy = await node.start("iptables");
      await until("it is removed", () => proxy.log().includes("Removed what another mode left"), proxy.log);
      for (const family of ["iptables", "ip6tables"]) {
        const chains = chainsOf(space.must([`${family}-${variant}-save`]));
        expect(chains.filter((chain) => ipvsOnly.includes(chain))).toEqual([]);
        for (const own of [
          "KUBE-SERVICES",
          "KUBE-POSTROUTING",
          "KUBE-MARK-MASQ",
          "KUBE-FORWARD",
          "KUBE-NODEPORTS",
          "KUBE-PROXY-FIREWALL",
        ])
          expect(chains).toContain(own);
      }
      expect(space.must(["ipset", "-n", "list"])).toBe("");
      expect(proxy.log()).not.toContain("still there");
      expect(proxy.log()).not.toContain("Rules of ours were changed");
      await node.startProbing(200);
      await Bun.sleep(500);
      expect(await node.stopProbing()).toMatchObject({ failed: 0, failures: [] });
      await proxy.stop("SIGTERM");
    } finally {
      await node.close();
    }
  },
);

test("both modes' chains, new mode nftables; what others made stays", async () => {
  const node = await Node.open();
  const { space } = node;
  try {
    fillForeign(space, ["nft"]);
    const before = space.must(["iptables-nft-save"]).replace(/^#.*$/gm, "");
    fill(space, "fuzz-0003", "ipvs", "nft");
    fill(space, "fuzz-0002", "iptables", "nft");
    const proxy = await node.start("nftables");
    await until("it is removed", () => proxy.log().includes("Removed what another mode left"), proxy.log);
    const counters = / \[\d+:\d+\]/g;
    const after = space.must(["iptables-nft-save"]).replace(/^#.*$/gm, "");
    expect(after.replace(counters, "")).toBe(before.replace(counters, ""));
    expect(space.must(["ipset", "-n", "list"])).toBe("KUBE-MINE\n");
    expect(space.must(["nft", "list", "tables"])).toContain("table ip kube-proxy\n");
    expect(space.must(["nfacct", "list"])).not.toContain("ct_state_invalid_dropped_pkts");
    await proxy.stop("SIGTERM");
  } finally {
    await node.close();
  }
});
