/** The privileged steps: which sysctls and counters, and when. */
import { expect, test } from "bun:test";
import { iptables } from "../../../src/backends/iptables/index.ts";
import type { Context } from "../../../src/model/context.ts";
import { IPv6 } from "../../../src/model/family.ts";
import type { Step } from "../../../src/model/step.ts";
import { context } from "./plans.ts";

const none = { any: false, addresses: ["192.168.0.2"], loopback: false };

function names(given: Context): string[] {
  return iptables.setup(given).map((step: Step) => {
    if (step.kind === "sysctl") return `${step.name}=${step.value}`;
    return step.kind === "exec" ? [step.tool, ...step.args].join(" ") : step.kind;
  });
}

test.each<readonly [string, Context, readonly string[]]>([
  ["by default", context, ["net/ipv4/conf/all/route_localnet=1", "net/bridge/bridge-nf-call-iptables=1"]],
  ["localhostNodePorts: false", { ...context, localhostNodePorts: false }, ["net/bridge/bridge-nf-call-iptables=1"]],
  ["no loopback address has node ports", { ...context, nodePorts: none }, ["net/bridge/bridge-nf-call-iptables=1"]],
  [
    "127.0.0.0/8 among the node port addresses",
    { ...context, nodePorts: { ...none, loopback: true } },
    ["net/ipv4/conf/all/route_localnet=1", "net/bridge/bridge-nf-call-iptables=1"],
  ],
  ["IPv6", { ...context, family: IPv6 }, ["net/bridge/bridge-nf-call-ip6tables=1"]],
  [
    "nfacct",
    { ...context, facts: { ...context.facts, nfacct: true }, localhostNodePorts: false },
    ["nfacct add ct_state_invalid_dropped_pkts", "net/bridge/bridge-nf-call-iptables=1"],
  ],
])("%s", (_, given, steps) => {
  expect(names(given)).toEqual([...steps]);
});

test.each([
  [
    false,
    true,
    "-A KUBE-FORWARD -m conntrack --ctstate INVALID -m nfacct --nfacct-name ct_state_invalid_dropped_pkts -j DROP\n",
  ],
  [false, false, "-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP\n"],
  [true, true, ""],
])("tcpBeLiberal %p, nfacct %p: INVALID packets", (tcpBeLiberal, nfacct, rule) => {
  const given = { ...context, facts: { ...context.facts, tcpBeLiberal, nfacct } };
  const plan = {
    services: new Map(),
    endpointCount: 0,
    noLocalEndpoints: { internal: 0, external: 0 },
    serviceCIDRs: [],
    conflicts: [],
    memory: { inputs: new Map(), context: given, base: new Map(), lost: new Map(), cidrs: [] },
  };
  const rules = iptables.desired(plan, given, undefined).fixed.filter.chains.get("KUBE-FORWARD") ?? "";
  expect(
    rules
      .split("\n")
      .filter((l) => l.includes("INVALID"))
      .map((l) => `${l}\n`)
      .join(""),
  ).toBe(rule);
});
