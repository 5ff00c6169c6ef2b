/** Errors that name lines of the input, as nft 1.0.6 words them, lead to Services. */
import { expect, test } from "bun:test";
import { blameServices } from "../../../src/backends/nftables/blame.ts";
import type { Step } from "../../../src/model/step.ts";

const input = `add table ip kube-proxy
table ip kube-proxy {
	chain service-AAAAAAAA-ns1/a/tcp/p {
meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }
	}
	chain services {
ip daddr . meta l4proto . th dport vmap @service-ips
	}
	set affinity-BBBBBBBB-ns2/b/udp/p__10.0.0.1/80 {
type ipv4_addr
	}
}
add element ip kube-proxy service-ips {
10.96.0.1 . tcp . 80 : goto service-AAAAAAAA-ns1/a/tcp/p,
10.96.0.3 . tcp . 80 : goto external-CCCCCCCC-ns3/c/tcp/
}
add element ip kube-proxy no-endpoint-services {
10.96.0.4 . tcp . 80 comment "ns4/d:http" : drop,
10.96.0.5 . tcp . 80 comment "ns5/e" : goto reject-chain
}
add element ip kube-proxy hairpin-connections {
10.0.0.1 . 10.0.0.1 . tcp . 80
}
`;
const step: Step = {
  kind: "exec",
  tool: "nft",
  args: ["-f", "-"],
  input: [input.slice(0, 100), input.slice(100)],
  about: "x",
};
const lines = input.split("\n");
const at = (text: string): string => {
  const line = lines.findIndex((l) => l.includes(text)) + 1;
  return `/dev/stdin:${line}:1-5: Error: Could not process rule: No such file or directory\n${text}\n^^^^^\n`;
};

test.each([
  [at("mod 2"), ["ns1/a"]],
  [at("chain service-AAAAAAAA"), ["ns1/a"]],
  [at("type ipv4_addr"), ["ns2/b"]],
  [at("10.96.0.3"), ["ns3/c"]],
  [at("10.96.0.4"), ["ns4/d"]],
  [at("10.96.0.5") + at("10.96.0.1"), ["ns1/a", "ns5/e"]],
  [at("vmap @service-ips"), []],
  [at("10.0.0.1 . 10.0.0.1"), []],
  [at("add element ip kube-proxy service-ips"), []],
  ["netlink: Error: cache initialization failed: Operation not permitted", []],
  ["/dev/stdin:9999:1-2: Error: past the end", []],
  ["", []],
])("%j", (stderr, services) => {
  expect(blameServices(step, stderr)).toEqual(services);
});

test("steps of another kind are nobody's fault", () => {
  expect(blameServices({ kind: "pause", ms: 1, about: "x" }, "/dev/stdin:1:1-2: Error: x")).toEqual([]);
});
