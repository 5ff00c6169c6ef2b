/** Tool output in the canonical form of test/conformance/README.md: what is compared with the recordings. */

type Mode = "iptables" | "ipvs" | "nftables";

const sortedChains: Readonly<Record<Mode, readonly string[]>> = {
  iptables: ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-EXTERNAL-SERVICES", "KUBE-PROXY-FIREWALL"],
  ipvs: ["KUBE-IPVS-OUT-FILTER"],
  nftables: [],
};

/** From iptables-save or ip6tables-save. */
export function canonicalIptables(text: string, mode: Mode): string {
  const out: string[] = [];
  let chains = new Map<string, { policy: string; rules: string[] }>();
  for (const line of text.split("\n")) {
    if (line.startsWith("*")) {
      out.push(line);
      chains = new Map();
    } else if (line.startsWith(":")) {
      const [name = "", policy = ""] = line.slice(1).split(" ");
      chains.set(name, { policy, rules: [] });
    } else if (line.startsWith("-A ")) {
      chains.get(line.split(" ")[1] ?? "")?.rules.push(line);
    } else if (line === "COMMIT") {
      out.push(...tableLines(chains, mode));
      // Tables without anything in them are not there for us.
      if (out.at(-1)?.startsWith("*")) out.pop();
    }
  }
  return lines(out);
}

function tableLines(chains: ReadonlyMap<string, { policy: string; rules: string[] }>, mode: Mode): readonly string[] {
  const out: string[] = [];
  for (const [name, { policy, rules }] of [...chains].sort(byName)) {
    if (policy !== "-" && rules.length === 0) continue;
    const last = rules.findIndex((r) => r.includes("must be the last rule"));
    const tail = last >= 0 && last === rules.length - 1 ? rules.splice(last, 1) : [];
    out.push(`:${name} ${policy}`, ...(sortedChains[mode].includes(name) ? rules.toSorted() : rules), ...tail);
  }
  return out;
}

/** From `nft -s list table ip kube-proxy`; empty when there is no such table. */
export function canonicalNft(text: string): string {
  const blocks: { kind: string; name: string; body: string[] }[] = [];
  let head = "";
  let block: (typeof blocks)[number] | undefined;
  let elements: string | undefined;
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    const opening = /^(chain|map|set) (\S+) \{$/.exec(line);
    if (line.startsWith("table ")) head = line.replace(" {", "");
    else if (opening !== null && block === undefined) {
      block = { kind: opening[1] ?? "", name: opening[2] ?? "", body: [] };
      blocks.push(block);
    } else if (elements !== undefined) elements += ` ${line}`;
    else if (line.startsWith("elements = {")) elements = line.slice("elements = {".length);
    else if (line === "}") block = undefined;
    else if (line !== "" && block !== undefined) block.body.push(oneEndpoint(line));
    if (elements?.trimEnd().endsWith("}") === true && block !== undefined) {
      block.body.push(...elementLines(elements.trimEnd().slice(0, -1), block.body));
      elements = undefined;
    }
  }
  if (head === "") return "";
  const key = (b: (typeof blocks)[number]): string => `${b.kind} ${b.name}`;
  blocks.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  return lines([head, ...blocks.flatMap((b) => [key(b), ...b.body.map((l) => `  ${l}`)])]);
}

function elementLines(text: string, body: readonly string[]): readonly string[] {
  if (body.some((l) => l.startsWith("flags") && l.includes("dynamic"))) return [];
  return splitElements(text)
    .map((e) => `element ${e.replace(/ (timeout|expires) \S+/g, "")}`)
    .sort();
}

/** Split at commas outside quotes. */
function splitElements(text: string): readonly string[] {
  const parts = text.match(/(?:"[^"]*"|[^,"])+/g) ?? [];
  return parts.map((p) => p.trim().replace(/\s+/g, " ")).filter((p) => p !== "");
}

function oneEndpoint(line: string): string {
  return line.replace(
    /dnat (ip6?) to numgen random mod 1 map \{ 0 : (\S+) \. (\d+) \}/,
    (_, family: string, ip: string, port: string) => `dnat to ${family === "ip6" ? `[${ip}]` : ip}:${port}`,
  );
}

/** From `ipvsadm -Sn`. */
export function canonicalIpvs(text: string): string {
  const services = new Map<string, { line: string; servers: string[] }>();
  for (const line of text.split("\n").map((l) => l.trim())) {
    const key = line.split(" ").slice(1, 3).join(" ");
    if (line.startsWith("-A ")) services.set(key, { line, servers: [] });
    else if (line.startsWith("-a ")) services.get(key)?.servers.push(`  ${line}`);
  }
  const sorted = [...services.values()].sort((a, b) => (a.line < b.line ? -1 : 1));
  return lines(sorted.flatMap((s) => [s.line, ...s.servers.sort()]));
}

/** From `ipset save`. */
export function canonicalIpset(text: string): string {
  const clean = text
    .split("\n")
    .filter((l) => l !== "")
    .map((l) => l.replace(/ (initval|bucketsize|hashsize) \S+/g, ""));
  return lines(clean.sort());
}

/** From `ip -o addr show dev kube-ipvs0`. */
export function canonicalAddresses(text: string): string {
  const all = [...text.matchAll(/ inet6? (\S+)/g)].map((m) => m[1] ?? "").filter((a) => !a.startsWith("fe80:"));
  return lines(all.sort());
}

/** From an answer of a health check port. */
export function canonicalAnswer(port: number, status: number, body: string): string {
  const sort = (v: unknown): unknown =>
    typeof v === "object" && v !== null && !Array.isArray(v)
      ? Object.fromEntries(
          Object.entries(v)
            .sort(byName)
            .map(([k, x]) => [k, sort(x)]),
        )
      : v;
  let text = body.trim();
  try {
    text = JSON.stringify(sort(JSON.parse(text)));
  } catch {
    // Not JSON: as it is.
  }
  return `${port} ${status} ${text}`;
}

function byName(a: readonly [string, unknown], b: readonly [string, unknown]): number {
  return a[0] < b[0] ? -1 : 1;
}

function lines(list: readonly string[]): string {
  return list.map((l) => `${l}\n`).join("");
}
