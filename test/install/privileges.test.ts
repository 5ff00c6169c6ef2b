/** After `--init-only`, the capabilities that the README lists are enough, on a read-only root and /proc/sys; fewer are not. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { binary, Space, until } from "../cleanup/space.ts";

setDefaultTimeout(60_000);

const dir = mkdtempSync("/tmp/kp-privileges-");
beforeAll(() => writeFileSync(`${dir}/objects.yaml`, objects));
afterAll(() => rmSync(dir, { recursive: true }));

type Variant = "nft" | "legacy";

/** Sysctls as they should be, then everything read-only but /run, where the xtables lock is. */
async function fenced(mode: string, variant: Variant, work: (space: Space, args: readonly string[]) => Promise<void>) {
  const space = await Space.open(variant);
  const args = [binary, "--proxy-mode", mode, "--manifests", `${dir}/objects.yaml`, "--hostname-override", "node-1"];
  try {
    space.must(["sh", "-ec", "mount -t tmpfs tmpfs /run"]);
    const init = space.run([...args, "--conntrack-max-per-core", "0", "--init-only"]);
    expect(init).toMatchObject({ code: 0 });
    expect(init.err).toContain("Set-up done, exiting because of --init-only");
    const readOnly = "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; mount -o remount,bind,ro /";
    space.must(["sh", "-ec", readOnly]);
    expect(space.run(["touch", "/etc/kp-write-test"]).err).toContain("Read-only file system");
    expect(space.run(["sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_forward"]).code).not.toBe(0);
    await work(space, [...args, "--conntrack-max-per-core", "0"]);
  } finally {
    await space.close();
  }
}

function limited(capabilities: readonly string[]): string[] {
  const set = ["-all", ...capabilities.map((name) => `+${name}`)].join(",");
  return ["setpriv", `--bounding-set=${set}`, "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"];
}

test.each([
  ["nftables", "nft", ["net_admin"]],
  ["iptables", "nft", ["net_admin"]],
  ["iptables", "legacy", ["net_admin", "net_raw"]],
] as const)("%s mode, iptables-%s: %p are enough", async (mode, variant, capabilities) => {
  await fenced(mode, variant, async (space, args) => {
    const log = `${space.dir}/log`;
    const child = space.start([...limited(capabilities), ...args], log);
    await until("rules are in place", () => {
      if (child.exitCode !== null) throw new Error(readFileSync(log, "utf8"));
      return readFileSync(log, "utf8").includes("Rules are in place");
    });
    const rules = mode === "nftables" ? ["nft", "list", "table", "ip", "kube-proxy"] : [`iptables-${variant}-save`];
    expect(space.must(rules)).toContain("10.96.0.10");
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
    expect(readFileSync(log, "utf8")).not.toMatch(/^E/m);
  });
});

describe("fewer end the start with a line that says what was refused", () => {
  test.each([
    ["nftables", "nft", []],
    ["iptables", "nft", []],
    ["iptables", "legacy", ["net_admin"]],
  ] as const)("%s mode, iptables-%s with %p", async (mode, variant, capabilities) => {
    await fenced(mode, variant, async (space, args) => {
      const { code, err } = space.run([...limited(capabilities), ...args]);
      expect(code).toBe(1);
      const last = err.trim().split("\n").at(-1) ?? "";
      expect(last).toContain(`${mode} mode cannot run here`);
      expect(last).toMatch(/Operation not permitted|Permission denied/);
      expect(err).not.toContain("    at ");
    });
  });
});

test.each(["iptables", "nftables"])("%s mode: --init-only leaves no rule behind", async (mode) => {
  const space = await Space.open();
  try {
    const args = ["--proxy-mode", mode, "--hostname-override", "node-1", "--init-only"];
    expect(space.run([binary, ...args])).toMatchObject({ code: 0 });
    expect(space.must(["nft", "list", "ruleset"])).not.toContain("KUBE");
    expect(space.must(["nft", "list", "tables"])).not.toContain("kube-proxy");
    expect(space.must(["iptables-legacy-save"])).toBe("");
  } finally {
    await space.close();
  }
});

const objects = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default, uid: a}
spec: {type: NodePort, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], ipFamilies: [IPv4], ports: [{name: http, port: 80, protocol: TCP, targetPort: 8080, nodePort: 30080}, {name: dns, port: 53, protocol: UDP, targetPort: 53}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]
endpoints: [{addresses: [10.244.1.5], conditions: {ready: true}, nodeName: node-1}]
`;
