/** render: its text, run by a shell, gives the kernel of the running proxy; without rights, from files or an API server. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { parseAllDocuments } from "yaml";
import type { ApiObject } from "../api/object-store.ts";
import { startApiServer } from "../api/server.ts";
import { cluster, empty, folder, kernelUnavailable, kubeProxy, Net, node, sh, six, until, web } from "./program.ts";

setDefaultTimeout(120_000);
const unavailable = kernelUnavailable("nft", "iptables", "ip");
if (unavailable !== undefined) console.warn(`render: kernel tests skipped: ${unavailable}`);
const inKernel = test.skipIf(unavailable !== undefined);
const manifests = cluster();
const about = ["--manifests", manifests, "--cluster-cidr", "10.1.0.0/16,fd01::/64"];
const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

async function net(): Promise<Net> {
  const one = await Net.open();
  closers.push(() => one.close());
  return one;
}

/** All rules of a namespace, in one form for both sides; counters and order of creation left out. */
async function kernel(of: Net, mode: string): Promise<string> {
  const save = {
    iptables: "iptables-save; ip6tables-save",
    nftables: "nft -s list table ip kube-proxy; nft -s list table ip6 kube-proxy",
  }[mode];
  const { out } = await of.sh(save ?? "false");
  const lines = out
    .replace(/,\s+/g, ",")
    .replace(/\[\d+:\d+\]/g, "")
    .replace(/--nfacct-name {2}/g, "--nfacct-name ")
    .split("\n");
  return lines
    .filter((line) => !line.startsWith("#"))
    .map((line) => line.split(",").sort().join(","))
    .sort()
    .join("\n");
}

for (const mode of ["nftables", "iptables"]) {
  inKernel(`${mode}: the printed script makes the kernel state of the running proxy`, async () => {
    const [proxied, scripted] = [await net(), await net()];
    const run = [
      "--proxy-mode",
      mode,
      "--hostname-override",
      "n1",
      "--oom-score-adj",
      "0",
      "--conntrack-max-per-core",
      "0",
    ];
    const process = proxied.start(...run, ...about);
    closers.push(() => process.kill());
    await until("rules in place", async () => (await proxied.kubeProxy("status")).code === 0);
    const expected = await kernel(proxied, mode);
    const rendered = await kubeProxy(
      "render",
      "--mode",
      mode,
      ...about,
      ...(expected.includes("--nfacct-name") ? ["--nfacct"] : []),
    );
    expect(rendered).toMatchObject({ code: 0, err: "" });
    expect(await sh(scripted.enter(["sh"]), rendered.out)).toMatchObject({ code: 0, err: "" });
    expect(expected).toContain("fd00::10");
    expect(expected).toContain("10.1.1.6");
    expect(await kernel(scripted, mode)).toBe(expected);
    process.kill();
    await process.exited;
  });
}

test("needs no rights, says what it assumes, and takes the only Node for its own", async () => {
  const bare = process.getuid?.() === 0 ? ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] : [];
  const files = folder({ "all.yaml": [node, web].join("---\n") });
  await sh(["chmod", "-R", "a+rX", files]);
  for (const mode of ["iptables", "nftables", "ipvs"]) {
    const { program } = await import("./program.ts");
    const { code, out, err } = await sh([
      ...bare,
      ...program,
      "render",
      "--manifests",
      files,
      "--mode",
      mode,
      "--family",
      "4",
    ]);
    expect({ mode, code, err }).toEqual({ mode, code: 0, err: "" });
    expect(out).toContain("# assumed: node n1 (the only Node in the manifests), addresses 192.0.2.1, zone z1");
    expect(out).toContain("kernel 6.1");
    expect(out).not.toContain("IPv6");
    expect(out).toContain({ iptables: "iptables-restore", nftables: "nft -f -", ipvs: "ipvsadm -R" }[mode] ?? "?");
    expect(out).toContain("203.0.113.7");
  }
});

test("--service: what one Service adds, and nothing of the others", async () => {
  const { out, code } = await kubeProxy("render", "--mode", "iptables", "--service", "shop/empty", ...about);
  expect(code).toBe(0);
  expect(out).toContain("10.0.0.11/32");
  expect(out).not.toContain("10.0.0.10");
  expect(out).not.toContain("KUBE-MARK-MASQ -j MARK");
  expect(out).toContain("IPv6: shop/empty has no cluster IP of this family: nothing is written");
});

test("flags win over the file, and --mode over all, to see what a change would do", async () => {
  const config = `${folder({ "c.yaml": "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\niptables: {masqueradeAll: false}\n" })}/c.yaml`;
  const plain = await kubeProxy("render", "--config", config, "--manifests", manifests, "--family", "4");
  const changed = await kubeProxy(
    "render",
    "--config",
    config,
    "--manifests",
    manifests,
    "--family",
    "4",
    "--masquerade-all",
  );
  const other = await kubeProxy("render", "--config", config, "--manifests", manifests, "--mode", "nftables");
  expect(plain.out).toContain("iptables-restore");
  expect(plain.out).not.toContain('shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ');
  expect(changed.out).toContain('shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ');
  expect(other.out).toContain("table ip kube-proxy");
});

test("json: the steps as data", async () => {
  const { out } = await kubeProxy("render", "--mode", "nftables", "--output", "json", ...about);
  const answer = JSON.parse(out) as {
    families: { family: string; services: number; steps: { tool: string; input: string }[] }[];
  };
  expect(answer.families.map(({ family, services }) => [family, services])).toEqual([
    ["IPv4", 2],
    ["IPv6", 1],
  ]);
  expect(answer.families[0]?.steps[0]).toMatchObject({ tool: "nft", input: expect.stringContaining("10.0.0.10") });
});

test("--kubeconfig: lists the cluster once and prints the same", async () => {
  const objects = [node, web, empty, six].flatMap((text) =>
    parseAllDocuments(text).map((one) => one.toJS() as ApiObject),
  );
  const server = startApiServer({ objects });
  const kubeconfig = `${folder({})}/kubeconfig`;
  server.writeKubeconfig({}, kubeconfig);
  const common = ["--mode", "nftables", "--node-name", "n1", "--cluster-cidr", "10.1.0.0/16"];
  const listed = await kubeProxy("render", "--kubeconfig", kubeconfig, ...common);
  const read = await kubeProxy("render", "--manifests", manifests, ...common);
  await server.stop();
  const rules = (text: string) => text.slice(text.indexOf("set -e"));
  expect(listed).toMatchObject({ code: 0, err: "" });
  expect(rules(listed.out)).toBe(rules(read.out));
  expect(listed.out).toContain(`objects from ${server.url}`);
});

test("hostile objects are left out with a remark, and nothing of them reaches the script", async () => {
  const hostile = `apiVersion: v1
kind: Service
metadata: {name: "a\\nEND_OF_INPUT\\ntouch pwned\\u001b[31m", namespace: x}
spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: fine, namespace: x}
spec: {clusterIP: 10.0.0.2, ports: [{name: "p'; touch pwned", port: 80}, {name: q, port: 81}], externalIPs: ["1.2.3.4; touch pwned"]}
`;
  const files = folder({ "a.yaml": hostile });
  for (const mode of ["nftables", "iptables", "ipvs"]) {
    const { code, out, err } = await kubeProxy("render", "--manifests", files, "--mode", mode);
    expect({ mode, code }).toEqual({ mode, code: 0 });
    expect(out).toContain("10.0.0.2");
    expect(out).not.toContain("pwned");
    expect(err).toContain("not a valid name: left out");
    expect(err).not.toContain("\u001b");
  }
});

const mistakes: readonly (readonly [string, readonly string[], RegExp])[] = [
  [
    "an unknown Service",
    ["--manifests", manifests, "--service", "shop/wep"],
    /^kube-proxy render: no Service shop\/wep in .*did you mean shop\/web\?/,
  ],
  [
    "no such folder",
    ["--manifests", "/nonexistent"],
    /cannot read manifests from \/nonexistent: no such file or folder/,
  ],
  ["a broken file", ["--manifests", folder({ "x.yaml": "kind: Service\nmetadata: {name: [}\n" })], /x\.yaml:2:19: /],
  ["no Services", ["--manifests", folder({ "n.yaml": node })], /no Service is in these manifests.*kubectl get/],
  ["no API server", ["--kubeconfig", "/nonexistent"], /\/nonexistent/],
  ["a bad family", ["--manifests", manifests, "--family", "5"], /--family: "5": must be 4 or 6/],
  ["a bad node IP", ["--manifests", manifests, "--node-ip", "here"], /--node-ip: "here": must be an IP address/],
  ["a bad form", ["--manifests", manifests, "--output", "xml"], /--output: "xml": must be text or json/],
  ["a stray word", ["--manifests", manifests, "shop/web"], /shop\/web: is no flag/],
];
for (const [what, args, line] of mistakes) {
  test(`${what}: one line, exit 1`, async () => {
    const { code, out, err } = await kubeProxy("render", ...args);
    expect({ code, out, lines: err.trimEnd().split("\n").length }).toEqual({ code: 1, out: "", lines: 1 });
    expect(err).toMatch(line);
  });
}
