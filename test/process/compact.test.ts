/** The gate of the compact nftables layout through the binary: on, off again, and with an nft that does not take it. */
import { describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, realpathSync, writeFileSync } from "node:fs";
import { fit, healthy, newApi, newDir, nftTable, resetHost, sh, startProxy, until } from "./harness.ts";
import { node1, service, slice } from "./objects.ts";

const gate = { config: { featureGates: { KubeProxyNFTablesCompact: true } } };

function clusterApi() {
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply([service("web"), slice("web", ["10.244.1.5@node-1", "10.244.2.5"])]);
  return api;
}

describe.skipIf(!fit)("the compact layout", () => {
  test("comes with the gate, in place of the standard one, and goes with it", async () => {
    const api = clusterApi();
    const standard = startProxy(api);
    await until(healthy, () => standard.log());
    expect(nftTable()).toMatch(/chain service-[A-Z2-7]{8}-ns\/web\/tcp\//);
    await standard.stop();
    const compact = startProxy(api, gate);
    await until(
      () => nftTable().includes("10.96.0.10 . tcp . 80 : goto lb-tcp-2"),
      () => compact.log(),
    );
    expect(nftTable()).toContain("10.96.0.10 . 80 . 1 : 10.244.2.5 . 8080");
    await until(
      () => nftTable("ip6").includes("map tcp-endpoints {"),
      () => compact.log(),
    );
    // What the standard layout had is empty, and goes half a minute later.
    expect(nftTable()).toMatch(/chain service-[A-Z2-7]{8}-ns\/web\/tcp\/ \{\n\t\}/);
    await compact.stop();
    const back = startProxy(api);
    await until(
      () => !nftTable().includes("tcp-endpoints"),
      () => back.log(),
    );
    expect(nftTable()).toMatch(/10\.96\.0\.10 \. tcp \. 80 : goto service-[A-Z2-7]{8}-ns\/web\/tcp\//);
    await back.stop();
  });

  test("gives way to the standard one, with one line, where nft does not take it", async () => {
    const api = clusterApi();
    const dir = newDir();
    const nft = realpathSync("/usr/sbin/nft");
    copyFileSync(nft, `${dir}/nft`);
    // As nft 0.9.8 answers.
    const refusal = "/dev/stdin:7:9-20: Error: can not use variable sized data types (integer) in concat expressions";
    const script = `#!/bin/sh
case "$*" in *--check*)
  text=$(cat)
  case "$text" in *typeof*) echo '${refusal}' >&2; exit 1 ;; esac
  printf '%s\\n' "$text" | exec ${dir}/nft "$@" ;;
esac
exec ${dir}/nft "$@"
`;
    writeFileSync(`${dir}/old-nft`, script);
    chmodSync(`${dir}/old-nft`, 0o755);
    sh(`mount --bind ${dir}/old-nft ${nft}`);
    try {
      const run = startProxy(api, gate);
      await until(healthy, () => run.log());
      expect(nftTable()).toMatch(/chain service-[A-Z2-7]{8}-ns\/web\/tcp\//);
      const lines = run
        .log()
        .split("\n")
        .filter((line) => line.includes("KubeProxyNFTablesCompact"));
      expect(lines).toHaveLength(1);
      expect(lines[0]).toContain("the standard layout is written");
      expect(lines[0]).toContain(refusal.slice(refusal.indexOf("Error")));
      await run.stop();
    } finally {
      sh(`umount ${nft}`);
    }
  });
});
