import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { fit, sh, until } from "../process/harness.ts";
import { mutations } from "./mutations.ts";
import { legacyTools, mutateAndWait, repairs, type Scene, startScene, type Variant, withoutMonitor } from "./scene.ts";

/** `events`: no polling to speak of, so the monitor must tell; `polling`: no monitor, a look each second. */
const ways = [
  { variant: "nftables", way: "events" },
  { variant: "iptables-nft", way: "events" },
  { variant: "nftables", way: "polling" },
  { variant: "iptables-nft", way: "polling" },
  { variant: "iptables-legacy", way: "polling" },
] as const satisfies readonly { variant: Variant; way: string }[];

const periods = {
  events: { minSyncPeriod: "0s", syncPeriod: "1h" },
  polling: { minSyncPeriod: "0s", syncPeriod: "1s" },
};

describe.skipIf(!fit).each([...ways])("$variant, noticed by $way", ({ variant, way }) => {
  let scene: Scene;
  const undo: (() => void)[] = [];
  const times: string[] = [];
  let named = 0;
  beforeAll(async () => {
    if (variant === "iptables-legacy") undo.push(legacyTools());
    else if (way === "polling") undo.push(withoutMonitor());
    scene = await startScene(variant, { config: { [variant === "nftables" ? "nftables" : "iptables"]: periods[way] } });
  });
  afterAll(async () => {
    await scene.run.stop();
    await scene.api.stop();
    for (const one of undo) one();
    console.log(`drift ${variant} by ${way}: ${times.join(", ")}`);
  });

  // What polls is the same for all; iptables-legacy, which has nothing else, goes through the whole list.
  const few = way === "polling" && variant !== "iptables-legacy";
  for (const mutation of mutations(variant).filter((_, i) => !few || i % 2 === 0)) {
    test(mutation.name, async () => {
      // The last repair ends monitors; then they are back.
      if (way === "events") await Bun.sleep(700);
      const { lines, ms } = await mutateAndWait(scene, mutation);
      times.push(`${mutation.name} ${ms} ms`);
      for (const line of lines) expect(line).toMatch(/ipFamily="IPv[46]" what=".+" by="/);
      if (/by="process \d+ \((nft|ip6?tables)/.test(lines.join("\n"))) named++;
    });
  }

  // Not each: a flushed ruleset ends the monitors, and what comes before they are back is found by a look.
  if (way === "events")
    test("who did it is told, as a rule", () => {
      expect(named).toBeGreaterThan(times.length / 2);
    });

  if (variant !== "nftables" && way === "polling")
    test("route_localnet switched off", async () => {
      const { ms } = await mutateAndWait(scene, {
        name: "sysctl",
        command: "sysctl -qw net.ipv4.conf.all.route_localnet=0",
        kind: /sysctl/,
      });
      times.push(`route_localnet ${ms} ms`);
    });

  test("an event on the Node says what was changed", async () => {
    const found = (): boolean => scene.api.events().some((e) => JSON.stringify(e).includes("RulesChanged"));
    await until(found, () => JSON.stringify(scene.api.events()));
  });

  test("objects of others, however odd, are no drift and harm nothing", async () => {
    const before = await repairs();
    const logged = scene.run.log().length;
    sh(`nft 'table inet other {
      set s { typeof ip saddr . tcp dport; flags interval; }
      map m { typeof ip saddr : meta mark; }
      chain c { type filter hook input priority 0; tcp dport 1 counter; }
    }'`);
    sh("nft 'add table ip kube-proxy-2; add chain ip kube-proxy-2 services; add rule ip kube-proxy-2 services drop'");
    sh("nft 'add table netdev odd; add table bridge odd; add table arp odd'");
    const tool = variant === "iptables-legacy" ? "iptables-legacy" : "iptables-nft";
    sh(
      `${tool} -N FOREIGN; ${tool} -A FOREIGN -j DROP; ${tool} -I INPUT -p tcp --dport 9 -j FOREIGN; ${tool} -N KUBE-KUBELET-CANARY`,
    );
    await Bun.sleep(1500);
    sh(
      `nft delete table inet other; nft 'delete table ip kube-proxy-2; delete table netdev odd; delete table bridge odd; delete table arp odd'`,
    );
    sh(
      `${tool} -F FOREIGN; ${tool} -D INPUT -p tcp --dport 9 -j FOREIGN; ${tool} -X FOREIGN; ${tool} -X KUBE-KUBELET-CANARY`,
    );
    await Bun.sleep(500);
    expect(scene.run.log().slice(logged)).not.toContain("Rules of ours were changed");
    expect(await repairs()).toEqual(before);
  });
});
