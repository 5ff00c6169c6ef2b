/** The fixed chains of ipvs mode; a rule that needs a set to hold something is there only when it does. */
import type { Context } from "../../model/context.ts";
import { comment, printRule, type Words } from "../../tools/iptables.ts";
import { chains, type SetKey, setName, type Table } from "./names.ts";
import type { OutFilter } from "./state.ts";

type Chains = Readonly<Record<Table, ReadonlyMap<string, string>>>;

/** Every chain of ours with its rule lines. `used`: sets that hold something. */
export function renderChains(used: ReadonlySet<SetKey>, outFilters: readonly OutFilter[], context: Context): Chains {
  const book = new Book(used, context);
  filterRules(book, outFilters);
  natRules(book);
  return book.chains;
}

// --- internal ---

const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const;

/** Collects rules by table and chain. */
class Book {
  readonly chains: Record<Table, Map<string, string>>;
  readonly used: ReadonlySet<SetKey>;
  readonly context: Context;

  constructor(used: ReadonlySet<SetKey>, context: Context) {
    this.used = used;
    this.context = context;
    const empty = (table: Table): Map<string, string> => new Map(chains[table].map((name) => [name, ""]));
    this.chains = { filter: empty("filter"), nat: empty("nat") };
  }

  add(table: Table, chain: string, ...words: readonly Words[]): void {
    const before = this.chains[table].get(chain) ?? "";
    this.chains[table].set(chain, before + printRule({ chain, words }));
  }

  /** Only when the set holds something. */
  addFor(
    set: SetKey,
    table: Table,
    chain: string,
    words: (match: (direction: string) => Words) => readonly Words[],
  ): void {
    if (this.used.has(set)) this.add(table, chain, ...words((direction) => this.match(set, direction)));
  }

  match(set: SetKey, direction: string): Words {
    return ["-m", "set", "--match-set", setName(set, this.context.family), direction];
  }

  get mark(): string {
    return `0x${this.context.masqueradeMark.toString(16)}`;
  }
}

const accept: Words = ["-j", "ACCEPT"];
const back: Words = ["-j", "RETURN"];
const drop: Words = ["-j", "DROP"];
const masquerade: Words = ["-j", "KUBE-MARK-MASQ"];

function filterRules(book: Book, outFilters: readonly OutFilter[]): void {
  const { family } = book.context;
  const forward = "KUBE-FORWARD";
  book.add(
    "filter",
    forward,
    comment("kubernetes forwarding rules"),
    ["-m", "mark", "--mark", `${book.mark}/${book.mark}`],
    accept,
  );
  book.add(
    "filter",
    forward,
    comment("kubernetes forwarding conntrack rule"),
    ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"],
    accept,
  );
  // kube-ipvs0 makes every service address one of the node's: without this each port of the node is open on it (#72236).
  const filter = "KUBE-IPVS-FILTER";
  for (const set of ["LOAD-BALANCER", "CLUSTER-IP", "EXTERNAL-IP", "EXTERNAL-IP-LOCAL"] as const) {
    book.add("filter", filter, book.match(set, "dst,dst"), back);
  }
  book.add("filter", filter, book.match("HEALTH-CHECK-NODE-PORT", "dst"), back);
  book.add("filter", filter, ["-m", "conntrack", "--ctstate", "NEW"], book.match("IPVS-IPS", "dst"), [
    "-j",
    "REJECT",
    "--reject-with",
    family.rejectWith,
  ]);
  for (const { id } of outFilters) book.add("filter", "KUBE-IPVS-OUT-FILTER", ...outFilterWords(id, family.bits));
  book.add(
    "filter",
    "KUBE-NODE-PORT",
    comment("Kubernetes health check node port"),
    book.match("HEALTH-CHECK-NODE-PORT", "dst"),
    accept,
  );
  book.addFor("LOAD-BALANCER-FW", "filter", "KUBE-PROXY-FIREWALL", (match) => [
    comment("Kubernetes service load balancer ip + port for load balancer with sourceRange"),
    match("dst,dst"),
    ["-j", "KUBE-SOURCE-RANGES-FIREWALL"],
  ]);
  sourceRangeRules(book);
}

function outFilterWords(id: OutFilter["id"], bits: number): readonly Words[] {
  const vproto = `${protocolNumbers[id.protocol]}`;
  return [
    ["-s", `${id.ip}/${bits}`],
    ["-m", "ipvs", "--vproto", vproto, "--vaddr", id.ip, "--vport", `${id.port}`],
    drop,
  ];
}

function sourceRangeRules(book: Book): void {
  const chain = "KUBE-SOURCE-RANGES-FIREWALL";
  const about = (what: string): Words =>
    comment(`Kubernetes service load balancer ip + port + source ${what} for packet filter purpose`);
  book.addFor("LOAD-BALANCER-SOURCE-CIDR", "filter", chain, (match) => [about("cidr"), match("dst,dst,src"), back]);
  book.addFor("LOAD-BALANCER-SOURCE-IP", "filter", chain, (match) => [about("IP"), match("dst,dst,src"), back]);
  book.add("filter", chain, drop);
}

function natRules(book: Book): void {
  const { mark } = book;
  book.addFor("LOAD-BALANCER-LOCAL", "nat", "KUBE-LOAD-BALANCER", (match) => [
    comment("Kubernetes service load balancer ip + port with externalTrafficPolicy=local"),
    match("dst,dst"),
    back,
  ]);
  book.add("nat", "KUBE-LOAD-BALANCER", masquerade);
  book.add("nat", "KUBE-MARK-MASQ", ["-j", "MARK", "--set-xmark", `${mark}/${mark}`]);
  nodePortRules(book);
  postroutingRules(book);
  serviceRules(book);
}

function nodePortRules(book: Book): void {
  for (const protocol of ["tcp", "udp", "sctp"] as const) {
    const name = protocol.toUpperCase() as "TCP" | "UDP" | "SCTP";
    const hashed = name === "SCTP";
    const suffix = hashed ? " with type 'hash ip:port'" : "";
    const direction = hashed ? "dst,dst" : "dst";
    const local: SetKey = hashed ? "NODE-PORT-LOCAL-SCTP-HASH" : `NODE-PORT-LOCAL-${name}`;
    const all: SetKey = hashed ? "NODE-PORT-SCTP-HASH" : `NODE-PORT-${name}`;
    book.addFor(local, "nat", "KUBE-NODE-PORT", (match) => [
      ["-p", protocol],
      comment(`Kubernetes nodeport ${name} port with externalTrafficPolicy=local${suffix}`),
      match(direction),
      back,
    ]);
    book.addFor(all, "nat", "KUBE-NODE-PORT", (match) => [
      ["-p", protocol],
      comment(`Kubernetes nodeport ${name} port for masquerade purpose${suffix}`),
      match(direction),
      masquerade,
    ]);
  }
}

function postroutingRules(book: Book): void {
  const { mark } = book;
  const chain = "KUBE-POSTROUTING";
  book.addFor("LOOP-BACK", "nat", chain, (match) => [
    comment("Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose"),
    match("dst,dst,src"),
    ["-j", "MASQUERADE"],
  ]);
  book.add("nat", chain, ["-m", "mark", "!", "--mark", `${mark}/${mark}`], back);
  // The mark goes, lest a packet that passes twice is masqueraded twice.
  book.add("nat", chain, ["-j", "MARK", "--set-xmark", `${mark}/0x0`]);
  const target = book.context.facts.randomFully ? ["MASQUERADE", "--random-fully"] : ["MASQUERADE"];
  book.add("nat", chain, comment("kubernetes service traffic requiring SNAT"), ["-j", ...target]);
}

function serviceRules(book: Book): void {
  const chain = "KUBE-SERVICES";
  book.add("nat", chain, ["-s", book.context.family.loopback], back);
  book.addFor("LOAD-BALANCER", "nat", chain, (match) => [
    comment("Kubernetes service lb portal"),
    match("dst,dst"),
    ["-j", "KUBE-LOAD-BALANCER"],
  ]);
  clusterIPMasquerade(book, chain);
  externalIPRules(book, chain);
  book.add("nat", chain, ["-m", "addrtype", "--dst-type", "LOCAL"], ["-j", "KUBE-NODE-PORT"]);
  book.addFor("CLUSTER-IP", "nat", chain, (match) => [match("dst,dst"), accept]);
  book.addFor("LOAD-BALANCER", "nat", chain, (match) => [match("dst,dst"), accept]);
}

function clusterIPMasquerade(book: Book, chain: string): void {
  const { masqueradeAll, detectLocal } = book.context;
  const about = comment("Kubernetes service cluster ip + port for masquerade purpose");
  const local = masqueradeAll ? undefined : notFromPods(detectLocal);
  // Without a way to tell pods, only packets from a service address itself are masqueraded: those of the node.
  const direction = masqueradeAll || local !== undefined ? "dst,dst" : "src,dst";
  book.addFor("CLUSTER-IP", "nat", chain, (match) => [
    ...(local === undefined ? [] : [local]),
    about,
    match(direction),
    masquerade,
  ]);
}

function notFromPods(detect: Context["detectLocal"]): Words | undefined {
  switch (detect.kind) {
    case "cidr":
      return ["!", "-s", detect.cidr];
    case "bridge":
      return ["!", "-i", detect.name];
    case "prefix":
      return ["!", "-i", `${detect.prefix}+`];
    case "none":
      return undefined;
  }
}

function externalIPRules(book: Book, chain: string): void {
  const about = comment("Kubernetes service external ip + port for masquerade and filter purpose");
  const local = comment("Kubernetes service external ip + port with externalTrafficPolicy=local");
  book.addFor("EXTERNAL-IP", "nat", chain, (match) => [about, match("dst,dst"), masquerade]);
  for (const [set, text] of [
    ["EXTERNAL-IP", about],
    ["EXTERNAL-IP-LOCAL", local],
  ] as const) {
    // Neither from a pod behind a bridge nor from this node: what comes from outside.
    book.addFor(set, "nat", chain, (match) => [
      text,
      match("dst,dst"),
      ["-m", "physdev", "!", "--physdev-is-in"],
      ["-m", "addrtype", "!", "--src-type", "LOCAL"],
      accept,
    ]);
    book.addFor(set, "nat", chain, (match) => [
      text,
      match("dst,dst"),
      ["-m", "addrtype", "--dst-type", "LOCAL"],
      accept,
    ]);
  }
}

/** All rules, for counting. */
export function countRules(chains: Chains): Readonly<Record<Table, number>> {
  const count = (table: Table): number => {
    let n = 0;
    for (const text of chains[table].values()) n += text.split("\n").length - 1;
    return n;
  };
  return { filter: count("filter"), nat: count("nat") };
}
