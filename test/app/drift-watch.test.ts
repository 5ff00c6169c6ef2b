import { expect, test } from "bun:test";
import { DriftWatch, type ForeignChange } from "../../src/app/drift-watch.ts";
import { parseXtablesMonitorLine } from "../../src/tools/xtables-monitor.ts";

/** Feeds recorded lines of `xtables-monitor -e` (iptables 1.8.9); process 1 is ours. */
function feed(watch: DriftWatch, text: string): ForeignChange[] {
  return text.split("\n").flatMap((line) => {
    const event = parseXtablesMonitorLine(line);
    const change = event === undefined ? undefined : watch.feed(event, (pid) => pid === 1);
    return change === undefined ? [] : [change];
  });
}

const deleted = ` EVENT: -4 -t kube-proxy -D b -j c
 EVENT: -4 -t kube-proxy -X c
 EVENT: nft: DEL table: table kube-proxy ip flags 0 use 0 handle 1
NEWGEN: GENID=5 PID=24648 NAME=nft`;

test("a deleted table of ours names what and who", () => {
  expect(feed(new DriftWatch("nftables"), deleted)).toEqual([
    {
      generation: 5,
      verdict: "ours",
      by: "process 24648 (nft)",
      drift: [
        { kind: "rule", what: "rule removed from chain b of table kube-proxy: -j c", family: "IPv4" },
        { kind: "chain", what: "chain c of table kube-proxy deleted", family: "IPv4" },
        { kind: "table", what: "table kube-proxy deleted", family: "IPv4" },
      ],
    },
  ]);
  expect(feed(new DriftWatch("nftables"), deleted.replace("PID=24648", "PID=1"))).toEqual([]);
});

test("the same in iptables mode concerns others, and elements show as nothing", () => {
  const watch = new DriftWatch("iptables");
  expect(feed(watch, deleted)[0]).toMatchObject({ verdict: "others", drift: [] });
  expect(feed(watch, "NEWGEN: GENID=6 PID=9 NAME=nft")[0]).toMatchObject({ verdict: "unseen", drift: [] });
});

test("jumps and KUBE- chains in iptables mode, kubelet's own are its own", () => {
  const lines = ` EVENT: -4 -t nat -D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
 EVENT: -6 -t nat -X KUBE-SVC-VO6GEZA45BCWQPJM
 EVENT: -4 -t nat -A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE
 EVENT: -4 -t mangle -X KUBE-KUBELET-CANARY
NEWGEN: GENID=7 PID=9 NAME=iptables-nft`;
  expect(feed(new DriftWatch("iptables"), lines)[0]?.drift.map((d) => `${d.family} ${d.kind}`)).toEqual([
    "IPv4 jump",
    "IPv6 chain",
  ]);
});

test("a monitor that ends at a rule of our table has told enough", () => {
  const watch = new DriftWatch("nftables");
  expect(watch.ended(" EVENT: -6 -t kube-proxy ")).toEqual([
    { kind: "rule", what: "a rule of table kube-proxy was added or removed", family: "IPv6" },
  ]);
  expect(watch.ended(" EVENT: -4 -t foreign ")).toEqual([]);
  expect(new DriftWatch("iptables").ended(" EVENT: -4 -t kube-proxy ")).toEqual([]);
});
