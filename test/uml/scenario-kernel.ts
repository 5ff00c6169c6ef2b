/** Scenarios about what else is in the kernel: foreign servers, drift, sets of a wrong type, cleaning up, missing parts. */
import assert from "node:assert/strict";
import { ipvs, probe } from "../../src/backends/ipvs/index.ts";
import { runSteps } from "../../src/host/run.ts";
import type { Context } from "../../src/model/context.ts";
import type { Snapshot } from "../../src/model/snapshot.ts";
import { contextOf, makeInput, snapshotOf } from "../backends/ipvs/cluster.ts";
import { run } from "./host.ts";
import { IpvsProxy } from "./proxy.ts";

const web = makeInput({
  name: "web",
  ip: "10.96.0.1",
  endpoints: ["10.244.1.5", "10.244.2.5"],
  spec: { type: "NodePort", ports: [{ port: 80, protocol: "TCP", nodePort: 30080 }] },
});
const dns = makeInput({ name: "dns", ip: "10.96.0.2", protocol: "UDP", endpoints: ["10.244.2.5"] });
const both = snapshotOf(web, dns);
const nothing = snapshotOf();

/** A foreign server in an excluded range, with its own real servers, lives through start, change and cleanup. */
export async function exclude(): Promise<void> {
  run("ip", "link", "set", "lo", "up");
  const foreign = ["-A -t 10.200.0.1:80 -s wrr -p 60", "-a -t 10.200.0.1:80 -r 10.9.0.1:80 -g -w 7"];
  for (const line of [...foreign, "-A -t 10.201.0.1:80 -s rr", "-A -t 10.96.0.9:80 -s rr"]) {
    run("ipvsadm", ...line.split(" "));
  }
  const proxy = await start(contextOf({ excludeCIDRs: ["10.200.0.0/16"] }), both);
  const held = (): void => {
    const lines = run("ipvsadm", "-Sn");
    for (const line of foreign) assert.ok(lines.includes(line), `${line} is still there in ${lines}`);
  };
  held();
  assert.doesNotMatch(run("ipvsadm", "-Sn"), /10\.201\.0\.1|10\.96\.0\.9/, "all other stale servers are gone");
  assert.deepEqual(await proxy.reconciler.inspect(), []);
  await proxy.settle(snapshotOf(dns));
  held();
  await clean(proxy.context);
  held();
  assert.doesNotMatch(run("ipvsadm", "-Sn"), /10\.96/);
}

/** Whatever is taken away is noticed, named and put back. */
export async function repair(): Promise<void> {
  const proxy = await start(contextOf(), both);
  const before = everything();
  const damages: readonly (readonly [string, string])[] = [
    ["server", "ipvsadm -D -t 10.96.0.1:80"],
    ["server", "ipvsadm -e -u 10.96.0.2:80 -r 10.244.2.5:8080 -m -w 5"],
    ["server", "ipvsadm -A -t 10.96.0.77:80 -s rr"],
    ["address", "ip addr del 10.96.0.2/32 dev kube-ipvs0"],
    ["element", "ipset del KUBE-CLUSTER-IP 10.96.0.1,tcp:80"],
    ["element", "ipset add KUBE-CLUSTER-IP 10.96.0.99,tcp:80"],
    ["jump", "iptables -t nat -D PREROUTING 1"],
    ["rule", "iptables -t nat -D KUBE-POSTROUTING 1"],
    ["device", "ip link del kube-ipvs0"],
    ["sysctl", "sysctl -qw net.ipv4.vs.conntrack=0"],
  ];
  for (const [kind, command] of damages) {
    run(...command.split(" "));
    const drift = await proxy.reconciler.inspect();
    assert.ok(
      drift.some((d) => d.kind === kind),
      `${command} is noticed: ${JSON.stringify(drift)}`,
    );
    // As the loop does after a look that found something.
    proxy.reconciler.forget();
    await proxy.settle(both);
    assert.equal(everything(), before, `${command} is repaired`);
    assert.deepEqual(await proxy.reconciler.inspect(), []);
  }
}

/** A set of ours by name but of another type, in use by a rule of ours, is replaced. */
export async function replaceWrongSet(): Promise<void> {
  run("ipset", "create", "KUBE-CLUSTER-IP", "hash:ip");
  run("iptables", "-t", "nat", "-N", "KUBE-SERVICES");
  run("iptables", ..."-t nat -A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst -j ACCEPT".split(" "));
  await start(contextOf(), both);
  assert.match(run("ipset", "save", "KUBE-CLUSTER-IP"), /create KUBE-CLUSTER-IP hash:ip,port family inet/);
}

/** Nothing of ours is left, everything of others is. */
export async function cleanUp(): Promise<void> {
  run("ipvsadm", "-A", "-t", "10.96.0.200:80", "-s", "rr");
  run("ipset", "create", "FOREIGN", "hash:ip");
  run("iptables", "-A", "INPUT", "-s", "203.0.113.9", "-j", "ACCEPT");
  const v4 = contextOf({ excludeCIDRs: ["10.96.0.200/32"] });
  const v6 = contextOf({ excludeCIDRs: ["10.96.0.200/32"] }, "IPv6");
  const six = makeInput({ name: "six", ip: "fd00:10:96::1", endpoints: ["fd00:10:244:2::5"] });
  await start(v4, both);
  await start(v6, snapshotOf(six));
  assert.match(run("ipvsadm", "-Sn"), /192\.168\.0\.2:30080/);
  const looks = await leftOver(v4);
  assert.ok(looks, "there is something to clean");
  await clean(v4);
  await clean(v6);
  assert.equal(run("ipvsadm", "-Sn").trim(), "-A -t 10.96.0.200:80 -s rr");
  assert.match(run("ipset", "save"), /^create FOREIGN [^\n]*\n$/);
  for (const tool of ["iptables-save", "ip6tables-save"]) assert.doesNotMatch(run(tool), /KUBE/);
  assert.match(run("iptables-save"), /203\.0\.113\.9/);
  assert.equal(await leftOver(v4), false);
  // Again, with nothing there: no error.
  await clean(v4);
}

/** The probe names what is missing and writes nothing. */
export async function probeHost(): Promise<void> {
  const probed = async (context: Context) => {
    const reading = probe(context);
    return reading.parse(await runSteps(reading.steps));
  };
  const before = everything();
  assert.deepEqual(await probed(contextOf()), { errors: [], warnings: [] });
  assert.deepEqual(await probed(contextOf({ scheduler: "mh" }, "IPv6")), { errors: [], warnings: [] });
  const unknown = await probed(contextOf({ scheduler: "nosuch" }));
  assert.equal(unknown.errors.length, 1);
  assert.match(
    unknown.errors[0] ?? "",
    /ipvs\.scheduler: this kernel has no scheduler "nosuch"; load the module ip_vs_nosuch/,
  );
  assert.match((await probed(contextOf({ scheduler: "rr; rm" }))).errors[0] ?? "", /is no scheduler's name/);
  assert.equal(everything(), before, "nothing was written");
  run("sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1");
  const [warning = ""] = (await probed(contextOf())).warnings;
  assert.match(warning, /net\.ipv4\.conf\.all\.arp_ignore = 1 is set and left so/);
  assert.deepEqual((await probed(contextOf({ strictARP: true }))).warnings, []);
}

// --- internal ---

async function start(context: Context, snapshot: Snapshot): Promise<IpvsProxy> {
  run("ip", "link", "set", "lo", "up");
  const proxy = new IpvsProxy(context);
  await proxy.setup();
  await proxy.settle(nothing);
  await proxy.settle(snapshot);
  return proxy;
}

async function clean(context: Context): Promise<void> {
  const reading = ipvs.observe(context);
  await runSteps(ipvs.cleanup(context, reading.parse(await runSteps(reading.steps))));
}

async function leftOver(context: Context): Promise<boolean | undefined> {
  const reading = ipvs.leftovers?.(context);
  return reading?.parse(await runSteps(reading.steps));
}

/** All state that we or others may hold, without what changes by itself. */
function everything(): string {
  const tables = ["iptables-save", "ip6tables-save"].map((tool) =>
    run(tool)
      .replace(/^#.*\n/gm, "")
      .replace(/\[\d+:\d+\]/g, ""),
  );
  const sets = run("ipset", "save")
    .replace(/ (hashsize|bucketsize|initval) \S+/g, "")
    .split("\n")
    .sort()
    .join("\n");
  const links = run("ip", "-o", "addr", "show")
    .replace(/^\d+: /gm, "")
    .split("\n")
    .sort()
    .join("\n");
  const servers = run("ipvsadm", "-Sn").split("\n").sort().join("\n");
  return [...tables, sets, links, servers].join("\n");
}
