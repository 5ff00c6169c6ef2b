/** What does not depend on Services: fixed chains, the jumps to them, the ends of the dispatch chains. */
import type { Context } from "../../model/context.ts";
import { comment, printRule, type Rule, type Words } from "../../tools/iptables.ts";
import { canary, sharedChain, type Table } from "./names.ts";

export interface FixedTable {
  /** Chains that are all ours, and their rules; dispatch chains are not among them. */
  readonly chains: ReadonlyMap<string, string>;
  /** Rules at the end of a dispatch chain, by chain. */
  readonly tails: ReadonlyMap<string, string>;
  /** Our rules in chains that are not ours alone, in the order in which they stand when all are missing. */
  readonly jumps: readonly string[];
}

export type Fixed = Readonly<Record<Table, FixedTable>>;

/** nfacct counters that the rules name; made by `setup`. */
export const counters = { invalid: "ct_state_invalid_dropped_pkts", localhost: "localhost_nps_accepted_pkts" } as const;

/** Target words: a chain of ours or a built-in verdict. */
export function jump(chain: string): Words {
  return ["-j", chain];
}

/** `states`: comma-separated, as iptables-save orders them. */
export function conntrackState(states: string): Words {
  return ["-m", "conntrack", "--ctstate", states];
}

/** Counts the packet in an nfacct object, which must exist when the rule is loaded. */
export function counter(name: string): Words {
  return ["-m", "nfacct", "--nfacct-name", name];
}

/** Node ports are to answer on 127.0.0.1, which needs route_localnet; only where somebody may use it (kubernetes#90259). */
export function servesLocalhost(context: Context): boolean {
  return (
    context.family.name === "IPv4" &&
    context.localhostNodePorts &&
    (context.nodePorts.any || context.nodePorts.loopback)
  );
}

/**
 * All rules that no Service adds. INVALID packets are dropped only where conntrack is strict about TCP windows: they would be
 * forwarded untranslated and reset the connection (kubernetes#74839), but asymmetric routes need them (#94861, #117924).
 * Masquerading picks random ports where the tool can: two connections that race for one port lose a packet (#78547).
 */
export function fixedRules(context: Context): Fixed {
  return {
    mangle: { chains: new Map([[canary, ""]]), tails: new Map(), jumps: [] },
    filter: filter(context),
    nat: nat(context),
  };
}

// --- internal ---

function print(chain: string, ...rules: (readonly Words[])[]): string {
  return rules.map((words) => printRule({ chain, words } satisfies Rule)).join("");
}

function markWord(context: Context): string {
  const mark = `0x${context.masqueradeMark.toString(16)}`;
  return `${mark}/${mark}`;
}

function nat(context: Context): FixedTable {
  const mark = markWord(context);
  const masquerade = context.facts.randomFully ? ["-j", "MASQUERADE", "--random-fully"] : ["-j", "MASQUERADE"];
  const postrouting = print(
    "KUBE-POSTROUTING",
    [["-m", "mark", "!", "--mark", mark], jump("RETURN")],
    // The mark is cleared, or a packet that passes the stack twice (overlay networks) is masqueraded again.
    [["-j", "MARK", "--set-xmark", `${mark.split("/")[0] ?? ""}/0x0`]],
    [comment("kubernetes service traffic requiring SNAT"), masquerade],
  );
  const portals: readonly Words[] = [comment("kubernetes service portals"), jump("KUBE-SERVICES")];
  return {
    chains: new Map([
      ["KUBE-MARK-MASQ", print("KUBE-MARK-MASQ", [["-j", "MARK", "--set-xmark", mark]])],
      ["KUBE-POSTROUTING", postrouting],
      [canary, ""],
    ]),
    tails: new Map([["KUBE-SERVICES", print("KUBE-SERVICES", ...nodePortRules(context))]]),
    jumps: [
      print("PREROUTING", portals),
      print("OUTPUT", portals),
      print("POSTROUTING", [comment("kubernetes postrouting rules"), jump("KUBE-POSTROUTING")]),
    ],
  };
}

/** Which local addresses lead to KUBE-NODEPORTS. */
function nodePortRules(context: Context): (readonly Words[])[] {
  const { nodePorts, family } = context;
  const note = comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain");
  const end = jump("KUBE-NODEPORTS");
  if (nodePorts.any) {
    const local: Words = ["-m", "addrtype", "--dst-type", "LOCAL"];
    // IPv6 has no route_localnet: ::1 can never work, and is not to be swallowed.
    return servesLocalhost(context) ? [[note, local, end]] : [[["!", "-d", family.loopback], note, local, end]];
  }
  const addresses = [...nodePorts.addresses, ...(servesLocalhost(context) ? ["127.0.0.1"] : [])];
  return addresses.map((ip) => [["-d", `${ip}/${family.bits}`], note, end]);
}

function filter(context: Context): FixedTable {
  const invalid: Words[] = [conntrackState("INVALID")];
  if (context.facts.nfacct) invalid.push(counter(counters.invalid));
  const note = comment("kubernetes forwarding rules");
  const forward = print(
    "KUBE-FORWARD",
    ...(context.facts.tcpBeLiberal ? [] : [[...invalid, jump("DROP")]]),
    [note, ["-m", "mark", "--mark", markWord(context)], jump("ACCEPT")],
    [comment("kubernetes forwarding conntrack rule"), conntrackState("RELATED,ESTABLISHED"), jump("ACCEPT")],
  );
  return {
    chains: new Map([
      ["KUBE-FORWARD", forward],
      [canary, ""],
    ]),
    tails: new Map(),
    jumps: filterJumps(context, note),
  };
}

function filterJumps(context: Context, forwarding: Words): string[] {
  const fresh = conntrackState("NEW");
  const shared: readonly Words[] = [jump(sharedChain)];
  const firewall = [fresh, comment("kubernetes load balancer firewall"), jump("KUBE-PROXY-FIREWALL")];
  const services = [fresh, comment("kubernetes service portals"), jump("KUBE-SERVICES")];
  const external = [fresh, comment("kubernetes externally-visible service portals"), jump("KUBE-EXTERNAL-SERVICES")];
  const jumps = [
    print("INPUT", shared),
    print("INPUT", firewall),
    print("INPUT", [comment("kubernetes health check service ports"), jump("KUBE-NODEPORTS")]),
    print("INPUT", external),
    print("FORWARD", firewall),
    print("FORWARD", [forwarding, jump("KUBE-FORWARD")]),
    print("FORWARD", services),
    print("FORWARD", external),
    print("OUTPUT", shared),
    print("OUTPUT", firewall),
    print("OUTPUT", services),
  ];
  if (servesLocalhost(context)) jumps.push(localnetRule(context));
  return jumps;
}

/** CVE-2020-8558: with route_localnet on, neighbours must not reach sockets that listen on 127.0.0.1 only. */
function localnetRule(context: Context): string {
  const net = context.family.loopback;
  return print(sharedChain, [
    ["!", "-s", net],
    ["-d", net],
    comment("block incoming localnet connections"),
    ["-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT"],
    jump("DROP"),
  ]);
}
