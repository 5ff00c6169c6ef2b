/** `--cleanup` of the real binary: what kube-proxy left goes, what others made stays to the byte, twice. */
import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { dump, fill, fillForeign } from "./recorded.ts";
import { binary, Space, until } from "./space.ts";

setDefaultTimeout(120_000);

const open: Space[] = [];
afterEach(async () => {
  for (const space of open.splice(0)) await space.close();
});

async function space(variant: "nft" | "legacy" = "nft"): Promise<Space> {
  const made = await Space.open(variant);
  open.push(made);
  return made;
}

/** The first run removes, the second finds nothing; the dump is as before. */
function cleanTwice(where: Space, before: string): string {
  expect(dump(where)).not.toBe(before);
  const first = where.run([binary, "--cleanup"]);
  expect(first).toMatchObject({ code: 0, err: "" });
  expect(dump(where)).toBe(before);
  expect(first.out.split("\n").at(-2)).toBe("nothing of kube-proxy is left");
  expect(where.run([binary, "--cleanup"])).toEqual({ code: 0, out: "nothing to remove\n", err: "" });
  expect(dump(where)).toBe(before);
  return first.out;
}

describe.each(["nft", "legacy"] as const)("iptables-%s", (variant) => {
  test.each(["lb-source-ranges", "fuzz-0001", "fuzz-0007"])("what iptables mode left: %s", async (name) => {
    const where = await space(variant);
    fillForeign(where, [variant]);
    const before = dump(where);
    fill(where, name, "iptables", variant);
    expect(cleanTwice(where, before)).toContain(`iptables-${variant} chains: mangle KUBE-PROXY-CANARY`);
  });

  test.each(["lb-source-ranges", "fuzz-0001"])("what ipvs mode left: %s", async (name) => {
    const where = await space(variant);
    fillForeign(where, [variant]);
    const before = dump(where);
    fill(where, name, "ipvs", variant);
    const out = cleanTwice(where, before);
    expect(out).toContain(`removed 34 ipsets`);
  });
});

test("both modes in both variants at once, and the nftables tables of a real run", async () => {
  const where = await space();
  fillForeign(where, ["nft", "legacy"]);
  const before = dump(where);
  await runNftables(where);
  fill(where, "fuzz-0002", "iptables", "nft");
  fill(where, "fuzz-0003", "ipvs", "nft");
  fill(where, "fuzz-0002", "iptables", "legacy");
  fill(where, "fuzz-0003", "ipvs", "legacy");
  const out = cleanTwice(where, before);
  expect(out).toContain("removed 2 nftables tables: ip kube-proxy, ip6 kube-proxy");
  expect(out).toContain("removed 2 nfacct counters: ct_state_invalid_dropped_pkts");
  expect(out).toContain("iptables-legacy chains");
});

test("nothing at all: quiet, exit 0, and no legacy table comes into being", async () => {
  const where = await space();
  const before = dump(where);
  expect(where.run([binary, "--cleanup"])).toEqual({ code: 0, out: "nothing to remove\n", err: "" });
  expect(where.run(["cat", "/proc/net/ip_tables_names"]).out).toBe("");
  expect(dump(where)).toBe(before);
});

test("a host without ipset, ipvsadm, nfacct and nft is no reason to complain", async () => {
  const where = await space();
  fill(where, "fuzz-0001", "iptables", "nft");
  where.hide("ipset", "ipvsadm", "nfacct", "nft", "conntrack");
  expect(where.run([binary, "--cleanup"])).toMatchObject({ code: 0, err: "" });
  expect(where.must(["iptables-nft-save"])).not.toContain("KUBE-");
});

test("a host without any tool has nothing to remove", async () => {
  const where = await space();
  where.hide("xtables-nft-multi", "xtables-legacy-multi", "ipset", "ipvsadm", "nfacct", "nft", "ip");
  expect(where.run([binary, "--cleanup"])).toEqual({ code: 0, out: "nothing to remove\n", err: "" });
});

test("a chain that a rule of others leads to stays, is named, and the exit code is 1", async () => {
  const where = await space();
  fill(where, "fuzz-0001", "ipvs", "nft");
  const mine = "*nat\n:PORTMAP - [0:0]\n-A PORTMAP -p tcp -j KUBE-MARK-MASQ\nCOMMIT\n";
  where.must(["iptables-nft-restore", "--noflush"], mine);
  const { code, err } = where.run([binary, "--cleanup"]);
  expect(code).toBe(1);
  expect(err).toContain("Still there: iptables-nft chains: nat KUBE-MARK-MASQ");
  expect(err).toContain("a rule in chain PORTMAP, which is not ours, leads to it");
  const saved = where.must(["iptables-nft-save"]);
  expect(saved).toContain("-A PORTMAP -p tcp -j KUBE-MARK-MASQ");
  expect(saved.match(/^:KUBE-\S+/gm)).toEqual([":KUBE-MARK-MASQ"]);
});

test("where a kubelet is, KUBE-FIREWALL stays", async () => {
  const where = await space();
  const kubelet = `*mangle
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
`;
  where.must(["iptables-nft-restore", "--noflush"], kubelet);
  where.must(["iptables-nft-restore", "--noflush"], "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n");
  const { out } = where.run([binary, "--cleanup"]);
  expect(out).toContain("nat KUBE-SERVICES");
  expect(where.must(["iptables-nft-save"])).toContain("-j DROP");
});

test("needs no API server, no Node and no configuration that is right for this host", async () => {
  const where = await space();
  writeFileSync(
    `${where.dir}/config.yaml`,
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\nclientConnection: {kubeconfig: /nonexistent}\n",
  );
  fill(where, "fuzz-0001", "iptables", "nft");
  const { code, out } = where.run([binary, "--cleanup", "--config", `${where.dir}/config.yaml`]);
  expect(code).toBe(0);
  expect(out).toContain("iptables-nft chains");
});

test("without the capability it says so", async () => {
  const where = await space();
  const { code, err } = where.run([
    "setpriv",
    "--bounding-set=-net_admin",
    "--inh-caps=-net_admin",
    binary,
    "--cleanup",
  ]);
  expect(code).toBe(1);
  expect(err).toContain("--cleanup must run as root");
});

async function runNftables(where: Space): Promise<void> {
  writeFileSync(`${where.dir}/objects.yaml`, serviceObjects);
  const log = `${where.dir}/nftables.log`;
  const args = [
    "--proxy-mode",
    "nftables",
    "--manifests",
    `${where.dir}/objects.yaml`,
    "--hostname-override",
    "node-1",
  ];
  const proxy = where.start([binary, ...args], log);
  await until("nftables mode is up", async () => (await Bun.file(log).text()).includes("Rules are in place"));
  proxy.kill("SIGTERM");
  expect(await proxy.exited).toBe(0);
}

const serviceObjects = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default, uid: a}
spec: {type: ClusterIP, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10], ipFamilies: [IPv4], ports: [{name: http, port: 80, protocol: TCP, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.1.5], conditions: {ready: true}, nodeName: node-1}]
`;
