/** `kube-proxy explain` as its user sees it: text that fits, JSON, one line for a mistake, exit codes. */
import { afterAll, expect, test } from "bun:test";
import { runCommand } from "../../src/cli/dispatch.ts";
import { writeManifests } from "./manifests.ts";

const manifests = writeManifests();
afterAll(() => manifests.remove());

async function run(width: number, ...argv: readonly string[]) {
  let out = "";
  let err = "";
  const output = {
    out: (text: string) => {
      out += text;
    },
    err: (text: string) => {
      err += text;
    },
    width,
  };
  const code = await runCommand(["explain", ...argv], output);
  return { code, out, err };
}

const explain = (...argv: readonly string[]) =>
  run(80, ...argv, "--manifests", manifests.folder, "--cluster-cidr", "10.244.0.0/16,fd00:10:244::/56");

test("a pod to a cluster IP: the shares, each step, the objects of the mode", async () => {
  const { code, out, err } = await explain("--from", "10.244.1.5", "--to", "10.96.0.10:80", "--mode", "nftables");
  expect([code, err]).toEqual([0, ""]);
  const [packet, where, , fate, first, second] = out.split("\n");
  expect(packet).toBe("10.244.1.5 (a pod) -> 10.96.0.10:80/tcp");
  expect(where).toBe("on node-1, nftables mode, IPv4");
  expect(fate).toBe("SENT to one of these 2 endpoints:");
  // The pod is one of the endpoints itself: it must see another address than its own.
  expect(first).toBe("   50.0%  10.244.1.5:8080  (this node; sees the node's address)");
  expect(second).toBe("   50.0%  10.244.2.5:8080  (another node; sees the sender's address)");
  expect(out).toContain("nft map ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 }");
  expect(out).toContain("hairpin-connections { 10.244.1.5 . 10.244.1.5 . tcp . 8080 }");
});

test("an address that two Services claim is said to be", async () => {
  const { out } = await explain("--from", "external", "--to", "192.0.2.80:80", "--output", "json");
  const { service, steps } = JSON.parse(out);
  expect(service).toBe("shop/web");
  expect(steps.at(-1).text).toContain("claimed by shop/web and shop/rival");
});

test.each([
  ["external", "198.51.100.5:80", "iptables", "SENT to this endpoint:"],
  ["192.0.2.99", "198.51.100.5:80", "iptables", "DROPPED: the sender gets no answer."],
  ["192.0.2.99", "198.51.100.5:80", "ipvs", "DROPPED: the sender gets no answer."],
  ["external", "10.96.0.10:53/udp", "iptables", "REJECTED: the sender is told at once that the port is unreachable."],
  ["external", "10.96.0.10:81", "nftables", "REJECTED: the sender is told at once that the port is unreachable."],
  ["external", "10.96.0.10:81", "iptables", "NOT OURS: follows the routing table unchanged."],
  ["node", "192.168.0.2:31000", "iptables", "NOT OURS: delivered to the node's own sockets, if one listens there."],
  ["external", "[fd00:10:96::10]:80", "nftables", "REJECTED: the sender is told at once that the port is unreachable."],
  ["pod", "shop/web:dns", "iptables", "REJECTED: the sender is told at once that the port is unreachable."],
])("from %s to %s in %s mode: %s", async (from, to, mode, fate) => {
  const { code, out } = await explain("--from", from, "--to", to, "--mode", mode);
  expect([code, out.split("\n")[3]]).toEqual([0, fate]);
});

test("JSON holds the verdict, the objects as text and what was assumed", async () => {
  const { code, out } = await explain("--from", "external", "--to", "198.51.100.5:80", "--output", "json");
  const answer = JSON.parse(out);
  expect(code).toBe(0);
  expect(answer).toMatchObject({
    mode: "iptables",
    family: "IPv4",
    service: "shop/web",
    fate: { kind: "dnat", shares: [{ ip: "10.244.1.5", port: 8080, probability: 1, masqueraded: false, local: true }] },
  });
  expect(answer.steps.map((step: { topic: string }) => step.topic)).toEqual([
    "match",
    "source ranges",
    "policy",
    "masquerade",
    "endpoints",
  ]);
  expect(answer.steps[0].objects[0].text).toMatch(
    /^iptables -t nat KUBE-SERVICES -d 198\.51\.100\.5\/32 --dport 80 -j KUBE-FW-/,
  );
  expect(answer.assumptions.join()).toContain("node node-1");
});

test("the page of a Service: used and left out with reasons, health check, conflicts", async () => {
  const { code, out } = await explain("service", "shop/web");
  expect(code).toBe(0);
  expect(out).toContain("externalTrafficPolicy  Local");
  expect(out).toContain("+ 10.244.1.5:8080 (here) used for all traffic");
  expect(out).toContain("+ 10.244.2.5:8080 (node-2) used for cluster-wide traffic");
  expect(out).toMatch(/- 10\.244\.2\.6:8080 \(node-2\) left out: terminating, and ready endpoints/);
  expect(out).toContain("- 10.244.2.7:8080 (node-2) left out: not ready");
  expect(out).toContain("port 31000, 1 ready endpoint here: 200");
  expect(out).toContain("CONFLICT");
  const rival = await explain("service", "rival", "-o", "json");
  const page = JSON.parse(rival.out);
  expect(page).toMatchObject({ service: "shop/rival", affinitySeconds: 10800 });
  expect(page.families[0].externalIPs).toEqual([]);
  expect(page.families[0].conflicts[0]).toContain("shop/web has it");
});

test.each([40, 60, 80, 100])(
  "text of %p columns stays within them, but for names that cannot be broken",
  async (width) => {
    for (const argv of [
      ["--from", "pod", "--to", "10.96.0.10:80", "--mode", "nftables"],
      ["service", "shop/web"],
    ]) {
      const { out } = await run(width, ...argv, "--manifests", manifests.folder);
      const long = out.split("\n").filter((line) => line.length > width && /\S\s+\S/.test(line.trim()));
      const unbroken = long.filter(
        (line) => !/^\s+(nft|iptables|\d+\.\d%|port|from|to|\[)/.test(line) && !/^ {2}\S/.test(line),
      );
      expect(unbroken).toEqual([]);
    }
  },
);

test.each([
  [["--to", "10.96.0.10"], '--to: "10.96.0.10" is not of the form IP:port'],
  [["--to", "10.96.0.10:80/icmp"], '"icmp" is not a protocol: tcp, udp or sctp'],
  [["--to", "10.96.0.10:70000"], "70000 is not a port"],
  [["--from", "fd00::1", "--to", "10.96.0.10:80"], "fd00::1 is IPv6 but 10.96.0.10 is IPv4"],
  [["--from", "somebody", "--to", "10.96.0.10:80"], '"somebody" is not an IP address, "pod", "node" or "external"'],
  [["--to", "shop/wob"], "did you mean shop/web?"],
  [["--to", "shop/web:ftp"], "shop/web has no port ftp here; it has: http, dns"],
  [["--to", "[fd00:10:96::10]:80", "--family", "4"], "--family or this host leaves out"],
  [["service"], "needs namespace/name"],
  [["service", "shop/web", "more"], "more"],
  [["services", "shop/web"], "services"],
  [[], "--to: is needed"],
  [["--to", "a\u001b[31mb"], '"a?[31mb"'],
])("%j is one line and exit code 2", async (argv, line) => {
  const { code, out, err } = await explain(...argv);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain(line);
  expect(err.startsWith("kube-proxy explain: ")).toBe(true);
  expect(err.trim().split("\n").length).toBeLessThanOrEqual(2);
});
