/** diff on real rulesets: nothing where nothing differs, each change of others by name, and code 2 where it cannot tell. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { guestUnavailable, runInGuest } from "../uml/guest.ts";
import { cluster, folder, kernelUnavailable, kubeProxy, Net, node, program, sh, until, web } from "./program.ts";

setDefaultTimeout(180_000);
const unavailable = kernelUnavailable("nft", "iptables", "ip");
if (unavailable !== undefined) console.warn(`diff: kernel tests skipped: ${unavailable}`);
const inKernel = test.skipIf(unavailable !== undefined);
const manifests = cluster();
const cidr = ["--cluster-cidr", "10.1.0.0/16,fd01::/64"];
const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

/** A namespace whose rules a real run of the proxy has written. */
async function proxied(mode: string): Promise<Net> {
  const net = await Net.open();
  closers.push(() => net.close());
  const quiet = ["--oom-score-adj", "0", "--conntrack-max-per-core", "0"];
  const one = net.start("--proxy-mode", mode, "--hostname-override", "n1", "--manifests", manifests, ...cidr, ...quiet);
  closers.push(() => one.kill());
  await until("rules in place", async () => (await net.kubeProxy("status")).code === 0);
  one.kill();
  await one.exited;
  return net;
}

const diff = (net: Net, mode: string, ...more: readonly string[]) =>
  net.kubeProxy("diff", "--mode", mode, "--node-name", "n1", "--manifests", manifests, ...cidr, ...more);

/** Lines of a unified diff that add or remove, without the headers. */
const changes = (text: string) => text.split("\n").filter((line) => /^[+-]/.test(line) && !/^(---|\+\+\+) /.test(line));

inKernel("nftables: equal after a run of the proxy; then every kind of change by name", async () => {
  const net = await proxied("nftables");
  expect(await diff(net, "nftables")).toEqual({ code: 0, out: "", err: "" });
  // The packet path's own elements, and other people's tables, are no differences.
  const sets = (await net.sh("nft -s list table ip kube-proxy")).out;
  const affinity = /set (affinity-\S+) \{/.exec(sets)?.[1] ?? "none";
  expect((await net.sh(`nft add element ip kube-proxy ${affinity} '{ 10.9.9.9 }'; nft add table ip mine`)).code).toBe(
    0,
  );
  expect(await diff(net, "nftables")).toEqual({ code: 0, out: "", err: "" });

  const script = `nft add element ip kube-proxy cluster-ips '{ 10.0.0.99 }'
    nft delete element ip kube-proxy nodeport-ips '{ 192.0.2.1 }'
    nft add rule ip kube-proxy masquerading counter
    nft add chain ip6 kube-proxy stranger`;
  expect((await net.sh(script)).code).toBe(0);
  const found = await diff(net, "nftables");
  expect(found.code).toBe(1);
  expect(changes(found.out)).toEqual(["-counter", "-10.0.0.99", "+192.0.2.1", "-(empty)"]);
  expect(found.out).toContain(
    "--- kernel/IPv4/elements of set cluster-ips\n+++ desired/IPv4/elements of set cluster-ips\n@@",
  );
  expect(found.out).toContain("--- kernel/IPv6/chain stranger");
  expect(found.err).toBe(
    "kube-proxy diff: 4 chains and sets differ: 1 line missing in the kernel, 3 lines there that should not be\n",
  );
  const four = await diff(net, "nftables", "--family", "6");
  expect(changes(four.out)).toEqual(["-(empty)"]);
  const json = JSON.parse((await diff(net, "nftables", "--output", "json")).out) as {
    families: { family: string; equal: boolean; differences: unknown[] }[];
  };
  expect(json.families[0]?.differences).toContainEqual({
    name: "elements of set nodeport-ips",
    missing: ["192.0.2.1"],
    extra: [],
  });
});

inKernel("iptables: equal after a run of the proxy; then chains, rules, jumps, order and sysctls by name", async () => {
  const net = await proxied("iptables");
  expect(await diff(net, "iptables")).toEqual({ code: 0, out: "", err: "" });
  // Rules of others, kubelet's chains, and another order where order means nothing, are no differences.
  const harmless = `iptables -t nat -N KUBE-KUBELET-CANARY && iptables -t nat -N MINE && iptables -A INPUT -p icmp -j ACCEPT
    iptables -I KUBE-FIREWALL -j RETURN
    rule=$(iptables-save -t nat | grep -- '-A KUBE-SERVICES -d 203.0.113.7' | cut -c4-)
    eval iptables -t nat -D $rule && eval iptables -t nat -I $rule`;
  expect((await net.sh(harmless)).code).toBe(0);
  expect(await diff(net, "iptables")).toEqual({ code: 0, out: "", err: "" });

  const script = `iptables -t nat -I KUBE-MARK-MASQ -j RETURN
    iptables -t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA
    iptables -t nat -D POSTROUTING 1
    rule=$(iptables-save -t nat | grep -- '-A KUBE-SERVICES -d 10.0.0.10' | cut -c4-); eval iptables -t nat -D $rule
    sysctl -qw net.ipv4.conf.all.route_localnet=0`;
  expect((await net.sh(script)).code).toBe(0);
  const found = await diff(net, "iptables");
  expect(found.code).toBe(1);
  expect(changes(found.out).map((line) => line.slice(0, 45))).toEqual(
    [
      "--A KUBE-MARK-MASQ -j RETURN",
      "+-A KUBE-SERVICES -d 10.0.0.10/32 -p tcp -m c",
      "-(empty)",
      '+-A POSTROUTING -m comment --comment "kuberne',
      "-net.ipv4.conf.all.route_localnet = 0",
      "+net.ipv4.conf.all.route_localnet = 1",
    ].map((line) => line.slice(0, 45)),
  );
  expect(found.out).toContain("--- kernel/IPv4/nat/KUBE-SVC-AAAAAAAAAAAAAAAA\n");
});

inKernel("nothing of the host is changed, and nothing is left behind", async () => {
  const net = await proxied("iptables");
  const look =
    "iptables-save -t nat; iptables-save -t filter; nft list tables; sysctl net.ipv4.conf.all.route_localnet; nfacct list";
  const clean = (text: string) =>
    text
      .replace(/^#.*$/gm, "")
      .replace(/\[\d+:\d+\]/g, "")
      .replace(/pkts = \d+, bytes = \d+/g, "");
  await net.sh("iptables -t nat -F KUBE-SERVICES; sysctl -qw net.ipv4.conf.all.route_localnet=0");
  const before = clean((await net.sh(look)).out);
  expect((await diff(net, "iptables")).code).toBe(1);
  expect(clean((await net.sh(look)).out)).toBe(before);
});

inKernel("objects that changed meanwhile are differences of their chains only", async () => {
  const net = await proxied("nftables");
  const changed = folder({ "a.yaml": [node, web.replace("10.1.1.6", "10.1.1.7")].join("---\n") });
  const found = await net.kubeProxy(
    "diff",
    "--mode",
    "nftables",
    "--node-name",
    "n1",
    "--manifests",
    changed,
    "--family",
    "4",
    "--cluster-cidr",
    "10.1.0.0/16",
  );
  expect(found.code).toBe(1);
  expect(found.out).toContain("10.1.1.7");
  expect(found.out).not.toContain("masquerading");
});

inKernel("the Node is the running proxy's, not a guess: a name that is no Node is told", async () => {
  const net = await proxied("nftables");
  const found = await net.kubeProxy("diff", "--mode", "nftables", "--manifests", manifests, ...cidr);
  expect(found.err).toMatch(/^kube-proxy diff: there is no Node \S+ in .*--hostname-override/);
});

inKernel("a kernel without any rules differs in everything", async () => {
  const net = await Net.open();
  closers.push(() => net.close());
  for (const mode of ["nftables", "iptables"]) {
    const { code, out } = await diff(net, mode);
    expect(code).toBe(1);
    expect(changes(out).some((line) => line.includes("10.0.0.10"))).toBe(true);
    expect(changes(out).filter((line) => line.startsWith("-") && !line.includes("route_localnet"))).toEqual([]);
  }
});

test.skipIf(process.getuid?.() !== 0)(
  "without rights, objects or a good command line: code 2 and one line",
  async () => {
    const nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    const cases: readonly (readonly [RegExp, Promise<{ code: number | null; err: string }>])[] = [
      [/needs root: run it with sudo/, sh([...nobody, ...program, "diff", "--manifests", manifests])],
      [/no such file or folder/, kubeProxy("diff", "--manifests", "/nonexistent")],
      [/--mod: is no flag/, kubeProxy("diff", "--mod", "nftables")],
      [
        /cannot read the kernel: nft .*not installed|nft .*is not installed/,
        sh([
          "unshare",
          "-n",
          "-m",
          "sh",
          "-c",
          'mount --bind /dev/null "$(command -v nft)" && exec "$@"',
          "sh",
          ...program,
          "diff",
          "--mode",
          "nftables",
          "--manifests",
          manifests,
          "--node-name",
          "n1",
        ]),
      ],
    ];
    for (const [line, ran] of cases) {
      const { code, err } = await ran;
      expect({ code, lines: err.trimEnd().split("\n").length, err }).toMatchObject({ code: 2, lines: 1 });
      expect(err).toMatch(line);
    }
  },
);

test.skipIf(unavailable !== undefined || Bun.which("script") === null)(
  "on a terminal it says what it is doing, and wipes that away",
  async () => {
    const net = await Net.open();
    closers.push(() => net.close());
    const command = [...program, "diff", "--mode", "nftables", "--family", "4", "--manifests", manifests].join(" ");
    const { out } = await sh(net.enter(["script", "-qec", command, "/dev/null"]));
    expect(out).toContain("\r\x1b[KIPv4: loading the desired rules of 3 Services");
    expect(out.slice(0, out.indexOf("--- kernel"))).toEndWith("\r\x1b[K");
    expect((await diff(net, "nftables")).err).not.toContain("loading");
  },
);

const noGuest = guestUnavailable();
if (noGuest !== undefined) console.warn(`diff: ipvs test skipped: ${noGuest}`);
test.skipIf(noGuest !== undefined)(
  "ipvs, in a guest (and iptables with the legacy tools): equal after render's script; then servers, sets, addresses and sysctls by name",
  async () => {
    const guestFolder = `/run/host-tmp${manifests.slice("/tmp".length)}`;
    const inGuest = program.map((part) => part.replace(/^\/tmp\//, "/run/host-tmp/")).join(" ");
    const about = `--manifests ${guestFolder} --mode ipvs --cluster-cidr 10.1.0.0/16 --node-name n1`;
    const script = `ip link set lo up; ip addr add 192.0.2.1/32 dev lo
    ${inGuest} render ${about} --iptables-variant legacy > /tmp/rules.sh || exit 90
    sh /tmp/rules.sh >/dev/null 2>/tmp/said || { cat /tmp/said >&2; exit 91; }
    ${inGuest} diff ${about}; echo "exit $?"
    ipvsadm -D -t 10.0.0.10:80; ipvsadm -A -t 198.51.100.7:80; ipset add KUBE-CLUSTER-IP 198.51.100.8,tcp:1
    ip addr del 10.0.0.11/32 dev kube-ipvs0; sysctl -qw net.ipv4.vs.conntrack=0
    ${inGuest} diff ${about} --family 4; echo "exit $?"
    cat > /tmp/legacy <<'END'
      ip link set lo up; ip addr add 192.0.2.1/32 dev lo; about="$1"; shift
      "$@" render $about --iptables-variant legacy > /tmp/legacy-rules; sh /tmp/legacy-rules >/dev/null || exit 92
      "$@" diff $about; echo "legacy $?"
      iptables -t nat -D KUBE-SERVICES 1; "$@" diff $about; echo "legacy $?"
END
    unshare -n sh /tmp/legacy "${about.replace("ipvs", "iptables")}" ${inGuest}`;
    const { exitCode, stdout, stderr } = await runInGuest(["bash", "-c", script], 170);
    expect({ exitCode, stderr: stderr.includes("rror") ? stderr : "" }).toEqual({ exitCode: 0, stderr: "" });
    const [equal = "?", different = ""] = stdout.split("exit 0\n");
    expect(equal).toBe("");
    expect(different).toContain("exit 1");
    const lines = changes(different);
    expect(lines).toContain("+10.0.0.11");
    expect(lines).toContain("-add KUBE-CLUSTER-IP 198.51.100.8,tcp:1");
    expect(lines.some((line) => line.startsWith("+-a -t 10.0.0.10:80 -r 10.1.1.6:8080"))).toBe(true);
    expect(lines.some((line) => line.startsWith("--A -t 198.51.100.7:80"))).toBe(true);
    expect(lines).toContain("+net.ipv4.vs.conntrack = 1");
  },
);
