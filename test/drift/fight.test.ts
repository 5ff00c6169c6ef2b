import { afterEach, describe, expect, test } from "bun:test";
import { fit, sh, until } from "../process/harness.ts";
import { slice } from "../process/objects.ts";
import { dump, legacyTools, repairs, type Scene, startScene, type Variant } from "./scene.ts";

const undo: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const one of undo.splice(0).reverse()) await one();
});

async function scene(variant: Variant, syncPeriod: string, wrapper: readonly string[] = []): Promise<Scene> {
  const mode = variant === "nftables" ? "nftables" : "iptables";
  const made = await startScene(variant, { config: { [mode]: { minSyncPeriod: "0s", syncPeriod } }, wrapper });
  undo.push(async () => {
    await made.run.stop();
    await made.api.stop();
  });
  return made;
}

const strike = {
  nftables: "nft flush chain ip kube-proxy nat-prerouting",
  "iptables-nft": "iptables-nft -t nat -F KUBE-SERVICES",
  "iptables-legacy": "iptables-legacy -t nat -F KUBE-SERVICES",
} as const;

describe.skipIf(!fit)("others at work", () => {
  test.each(["nftables", "iptables-nft", "iptables-legacy"] as const)(
    "%s: a process that undoes each repair is not raced, but named; when it ends all is right",
    async (variant) => {
      if (variant === "iptables-legacy") undo.push(legacyTools());
      const { run } = await scene(variant, "1s");
      const before = dump(variant);
      const enemy = Bun.spawn(["sh", "-c", `while :; do ${strike[variant]} 2>/dev/null; sleep 0.1; done`]);
      undo.push(() => enemy.kill("SIGKILL"));
      const start = performance.now();
      await until(
        () => run.log().includes("Another process keeps changing our rules"),
        () => run.log(),
        40_000,
      );
      const seconds = (performance.now() - start) / 1000;
      const made = run.log().split("Rules of ours were changed, repairing").length - 1;
      enemy.kill("SIGKILL");
      await enemy.exited;
      // One a second at most, of each family.
      expect(made).toBeLessThanOrEqual(2 * (seconds + 1));
      expect(run.log()).toMatch(/nextRepairIn="\d+s"/);
      expect(run.log()).not.toMatch(/Unexpected error|not programmed/);
      await until(
        () => dump(variant) === before,
        () => `${before}\n${dump(variant)}\n${run.log()}`,
        40_000,
      );
    },
    120_000,
  );

  test.each(["nftables", "iptables-nft"] as const)(
    "%s: in a process namespace of its own, our transactions are no drift, those of others are",
    async (variant) => {
      const { api, run } = await scene(variant, "1h", ["unshare", "-p", "-f", "--kill-child", "--mount-proc"]);
      for (let i = 0; i < 30; i++) {
        api.apply(slice("a", [`10.244.1.${20 + i}@node-1`, "10.244.2.5"]));
        await Bun.sleep(50);
      }
      await until(
        () => dump(variant).includes("10.244.1.49"),
        () => run.log(),
      );
      await Bun.sleep(1500);
      expect(run.log()).not.toContain("Rules of ours were changed");
      expect((await repairs()).size).toBe(0);
      const before = dump(variant);
      sh(strike[variant]);
      await until(
        () => run.log().includes("Rules of ours were changed"),
        () => run.log(),
      );
      await until(
        () => dump(variant) === before,
        () => `${before}\n${dump(variant)}`,
      );
    },
  );
});
