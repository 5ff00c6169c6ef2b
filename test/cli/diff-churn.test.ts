/** diff after a long series of changes: whatever order the running proxy wrote its rules in, they are the wanted ones. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { renameSync, writeFileSync } from "node:fs";
import { Random, type RawService, randomChange, randomService } from "../model/random.ts";
import { folder, kernelUnavailable, Net, node, until } from "./program.ts";

setDefaultTimeout(120_000);
const unavailable = kernelUnavailable("nft", "iptables", "ip");
if (unavailable !== undefined) console.warn(`diff after changes: skipped: ${unavailable}`);
const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

const seed = 20261130;
const rounds = 6;

function write(path: string, cluster: readonly RawService[]): void {
  const items = cluster.flatMap(({ service, slices }) => [
    { apiVersion: "v1", kind: "Service", ...service },
    ...slices.map((slice) => ({ apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", ...slice })),
  ]);
  writeFileSync(`${path}/.new`, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
  renameSync(`${path}/.new`, `${path}/objects.json`);
}

for (const mode of ["nftables", "iptables"]) {
  test.skipIf(unavailable !== undefined)(
    `${mode}: equal after each of ${rounds} random changes (seed ${seed})`,
    async () => {
      const net = await Net.open();
      closers.push(() => net.close());
      const random = new Random(seed);
      let cluster: readonly RawService[] = Array.from({ length: 60 }, (_, i) => randomService(random, i));
      const path = folder({ "node.yaml": node.replaceAll("n1", "node-1") });
      write(path, cluster);
      const about = [
        "--proxy-mode",
        mode,
        "--hostname-override",
        "node-1",
        "--manifests",
        path,
        "--cluster-cidr",
        "10.244.0.0/16,fd00:10:244::/48",
      ];
      const running = net.start(
        ...about,
        "--oom-score-adj",
        "0",
        "--conntrack-max-per-core",
        "0",
        "--iptables-min-sync-period",
        "0s",
      );
      closers.push(() => running.kill());
      await until("rules in place", async () => (await net.kubeProxy("status")).code === 0);
      for (let round = 0; round < rounds; round++) {
        let last = "";
        await until(`round ${round}: equal`, async () => {
          const { code, out, err } = await net.kubeProxy("diff", ...about);
          last = out + err;
          return code === 0;
        }).catch((error: unknown) => {
          throw new Error(`${error}:\n${last}`);
        });
        cluster = randomChange(random, cluster, 100 + round * 10);
        write(path, cluster);
      }
      running.kill();
      await running.exited;
      expect(running.exitCode).toBe(0);
    },
  );
}
