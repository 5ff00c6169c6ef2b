/** Runs inside the guest: real UDP flows through real virtual servers, then the clean-up; prints what was there and what stayed. */
import { ConntrackCleaner } from "../../src/host/conntrack.ts";
import { context, plan } from "../conntrack/world.ts";
import { recordingLog } from "./log.ts";

const vip = "10.96.0.10";

async function sh(script: string): Promise<string> {
  const child = Bun.spawn(["sh", "-ec", script], { stdout: "pipe", stderr: "inherit" });
  const text = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`failed: ${script}`);
  return text;
}

/** A pod: a namespace with one address and a UDP echo on port 53, bound before this returns. */
async function pod(name: string, ip: string): Promise<Bun.Subprocess> {
  await sh(`ip netns add ${name}; ip link add v${name} type veth peer name e0 netns ${name}
    ip link set v${name} up; ip route add ${ip}/32 dev v${name} src 10.1.0.1
    ip -n ${name} addr add ${ip}/32 dev e0; ip -n ${name} link set e0 up; ip -n ${name} route add 10.1.0.1/32 dev e0
    ip -n ${name} route add default via 10.1.0.1`);
  const program = `const s = await Bun.udpSocket({ hostname: "${ip}", port: 53, socket: { data(s, d, p, a) { s.send(d, p, a); } } }); console.log("up");`;
  const child = Bun.spawn(["ip", "netns", "exec", name, process.execPath, "-e", program], { stdout: "pipe" });
  await child.stdout.getReader().read();
  return child;
}

/** One question from the node to the Service, answered. */
async function ask(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = await Bun.udpSocket({ hostname: "10.1.0.1", socket: { data: () => resolve() } });
  for (let i = 0; i < 20; i++) {
    socket.send("hi", 53, vip);
    if (await Promise.race([promise.then(() => true), Bun.sleep(500)])) break;
  }
  socket.close();
}

/** Reply sources of the UDP flows to the Service, sorted. */
async function flows(): Promise<string[]> {
  const text = await sh(`conntrack -L -p udp -d ${vip} 2>/dev/null`);
  return [...text.matchAll(/ src=(\S+) dst=\S+ sport=53 /g)].map((match) => match[1] ?? "").sort();
}

await sh(`modprobe ip_vs; modprobe dummy; modprobe nf_conntrack; ip link set lo up
  ip link add kp0 type dummy; ip addr add 10.1.0.1/32 dev kp0; ip link set kp0 up
  ip link add kube-ipvs0 type dummy; ip addr add ${vip}/32 dev kube-ipvs0
  iptables -t nat -A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
  echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/vs/conntrack`);
const pods = [await pod("p1", "10.1.0.3"), await pod("p2", "10.1.0.4")];
await sh(`ipvsadm -A -u ${vip}:53 -s rr; for p in 3 4; do ipvsadm -a -u ${vip}:53 -r 10.1.0.$p:53 -m; done`);
await ask();
await ask();
const before = await flows();

const ctx = context("IPv4", "ipvs");
const log = recordingLog();
const cleaner = new ConntrackCleaner({ family: "IPv4", log, gapMs: 0 });
const both = plan(ctx, [{ endpoints: ["10.1.0.3", "10.1.0.4"] }]);
cleaner.after(both, ctx);
await cleaner.idle();
const healthy = await flows();
await sh(`ipvsadm -d -u ${vip}:53 -r 10.1.0.3:53`);
const one = plan(ctx, [{ endpoints: ["10.1.0.4"] }], both);
cleaner.after(one, ctx);
await cleaner.idle();
const left = await flows();
await sh(`ipvsadm -D -u ${vip}:53`);
cleaner.after(plan(ctx, [], one), ctx);
await cleaner.idle();
cleaner.close();
for (const child of pods) child.kill("SIGKILL");
console.log(JSON.stringify({ before, healthy, left, none: await flows(), log: log.lines }));
process.exit(0);
