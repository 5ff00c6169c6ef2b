/**
 * 1,000 connects a second through mode switches, restarts and a swap of the binary: not one fails, no SYN is lost.
 * KUBE_PROXY_PEER: another kube-proxy to swap with; without it a second copy of ours plays the part.
 */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { Node } from "./node.ts";
import { binary, until } from "./space.ts";

setDefaultTimeout(120_000);

const open: Node[] = [];
afterEach(async () => {
  for (const node of open.splice(0)) await node.close();
});

async function openNode(variant: "nft" | "legacy" = "nft"): Promise<Node> {
  const node = await Node.open(variant);
  open.push(node);
  return node;
}

async function expectNoLoss(node: Node, atLeast: number): Promise<void> {
  const losses = await node.stopProbing();
  expect(losses).toMatchObject({ failed: 0, failures: [], lostPackets: 0 });
  expect(losses.attempts).toBeGreaterThan(atLeast);
}

test("the probers notice: without the rules for a moment, connections fail", async () => {
  const node = await openNode();
  const proxy = await node.start("nftables");
  await proxy.stop("SIGKILL");
  await node.startProbing();
  node.space.must(["nft", "delete", "table", "ip", "kube-proxy"]);
  await Bun.sleep(100);
  const again = await node.start("nftables");
  await Bun.sleep(1_500);
  const { failed, lostPackets } = await node.stopProbing();
  expect(failed + lostPackets).toBeGreaterThan(0);
  await again.stop("SIGTERM");
});

test("iptables → nftables → iptables: leftovers go, nothing is lost", async () => {
  const node = await openNode();
  let proxy = await node.start("iptables");
  await node.startProbing();
  for (const [mode, gone] of [
    ["nftables", "iptables-nft chains"],
    ["iptables", "nftables tables"],
  ] as const) {
    await proxy.stop("SIGTERM");
    const next = await node.start(mode);
    proxy = next;
    await until("leftovers are removed", () => next.log().includes(`${gone}:`));
  }
  await Bun.sleep(700);
  await expectNoLoss(node, 1000);
  expect(node.space.run(["nft", "list", "tables"]).out).not.toContain("kube-proxy");
  expect(node.space.must(["iptables-save"])).toContain(":KUBE-SERVICES");
  await proxy.stop("SIGTERM");
});

test.each(["iptables", "nftables"] as const)("%s mode: SIGTERM and SIGKILL restarts lose nothing", async (mode) => {
  const node = await openNode();
  let proxy = await node.start(mode);
  await node.startProbing();
  for (const signal of ["SIGTERM", "SIGKILL", "SIGKILL"] as const) {
    await proxy.stop(signal);
    proxy = await node.start(mode);
  }
  await Bun.sleep(700);
  await expectNoLoss(node, 1000);
});

test("iptables-legacy: a restart, and the way to nftables and back, lose nothing", async () => {
  const node = await openNode("legacy");
  let proxy = await node.start("iptables");
  await node.startProbing();
  for (const mode of ["iptables", "nftables", "iptables"] as const) {
    await proxy.stop("SIGKILL");
    proxy = await node.start(mode);
  }
  await Bun.sleep(700);
  await expectNoLoss(node, 1000);
});

test.each(["iptables", "nftables"] as const)("%s mode: another kube-proxy takes over and gives back", async (mode) => {
  const node = await openNode();
  const given = process.env["KUBE_PROXY_PEER"];
  const peer = given ?? `${node.space.dir}/kube-proxy-peer`;
  if (given === undefined) copyFileSync(binary, peer);
  // Of a foreign binary only the rules tell that it is up: it rewrites them within its first second.
  const ready =
    given === undefined
      ? undefined
      : (log: string) => /Synced|SyncProxyRules complete|syncProxyRules complete/i.test(log);
  const ours = await node.start(mode);
  await node.startProbing();
  await ours.stop("SIGTERM");
  const other = await node.start(mode, peer, ready);
  await other.stop("SIGTERM");
  const again = await node.start(mode);
  await Bun.sleep(700);
  await expectNoLoss(node, 1000);
  await again.stop("SIGTERM");
});

test("rules in the other variant of iptables are reported with the command that removes them", async () => {
  const node = await openNode("legacy");
  const before = await node.start("iptables");
  await before.stop("SIGTERM");
  const other = await openNode("nft");
  for (const counter of ["ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts"])
    other.space.run(["nfacct", "add", counter]);
  other.space.must(["iptables-legacy-restore"], node.space.must(["iptables-legacy-save"]));
  const proxy = await other.start("iptables");
  await until("the report", () => proxy.log().includes("other variant"));
  const remedy = /remedy="(.+?)"$/m.exec(
    proxy
      .log()
      .split("\n")
      .find((l) => l.includes("other variant")) ?? "",
  )?.[1];
  expect(remedy).toBe("iptables-legacy-save | grep -v KUBE- | iptables-legacy-restore");
  other.space.must(["sh", "-c", remedy ?? "false"]);
  expect(other.space.must(["iptables-legacy-save"])).not.toContain("KUBE-");
  expect(other.space.must(["iptables-nft-save"])).toContain("KUBE-SERVICES");
});
