/** Seeded objects as a hostile or broken API server might send them: valid ones with anything in them replaced. */
import { type Random, type RawService, randomService } from "../model/random.ts";

/** In every hostile text: outside of quotes it must never reach a tool. */
export const marker = "INJECT";

const texts: readonly string[] = [
  `x"; add table ip ${marker}; #`,
  `\n-A INPUT -j ${marker}\n`,
  `x'\`$(${marker})\``,
  `} table ip ${marker} { chain c {`,
  `\\" -j ${marker} \\`,
  `x\\`,
  `"`,
  `${marker}\r\nCOMMIT\r\n*filter`,
  `\u2028${marker}\u2029`,
  `\u0000${marker}`,
  `Δ${marker}💥`,
  "__proto__",
  "constructor",
  "toString",
  "",
  " ",
  "-",
  "a".repeat(300),
  `${"é".repeat(130)}`,
  "../../etc/passwd",
  "%s%n",
  "KUBE-SVC-AAAAAAAAAAAAAAAA",
  "kube-proxy",
];

const addresses: readonly unknown[] = [
  "10.0.0.256",
  "010.0.0.1",
  "10.0.0.1/32",
  "0.0.0.0",
  "255.255.255.255",
  "127.0.0.1",
  "169.254.1.1",
  "224.0.0.1",
  "::",
  "::1",
  "fe80::1",
  "ff02::1",
  "fe80::1%eth0",
  "::ffff:10.0.0.1",
  "2001:db8::1::2",
  "1.2.3",
  "0x7f.1",
  `10.0.0.1; ${marker}`,
  `10.0.0.1\n${marker}`,
  "None",
  "",
  167772161,
  null,
];

const numbers: readonly unknown[] = [
  0,
  -1,
  1,
  65535,
  65536,
  70000,
  1e9,
  2 ** 53,
  1.5,
  Number.NaN,
  "80",
  `80 ${marker}`,
  null,
  true,
  {},
];
const odd: readonly unknown[] = [null, [], {}, 0, -1, "", "x", true, [null], [[]], { a: null }];
const words: readonly unknown[] = [
  "tcp",
  "ICMP",
  "Local",
  "Cluster",
  "ClientIP",
  "local",
  "ALL",
  "IPv5",
  "FQDN",
  "Prefer",
  "VIP",
  "Proxy",
  "Unknown",
];

/** One object of a kind, as text from the API would be parsed. */
export type Raw = Record<string, unknown>;

/** A Service with its slices; with a chance of `percent` for each part of them to be broken. */
export function fuzzService(random: Random, index: number, percent: number): RawService {
  const { service, slices } = randomService(random, index);
  const metadata = service["metadata"] as Raw;
  if (random.chance(30))
    metadata["annotations"] = {
      [random.pick(texts)]: random.pick(texts),
      "service.kubernetes.io/topology-mode": random.pick(texts),
    };
  if (random.chance(20)) metadata["labels"] = { [random.pick(texts)]: random.pick(texts) };
  return {
    service: broken(random, service, percent) as Raw,
    slices: slices.map((s) => broken(random, s, percent) as Raw),
  };
}

export function fuzzNode(random: Random, percent: number): unknown {
  return broken(
    random,
    {
      metadata: {
        name: "node-1",
        labels: { "topology.kubernetes.io/zone": random.pick(["zone-a", ...texts]) },
        resourceVersion: "1",
      },
      spec: { podCIDR: "10.244.1.0/24", podCIDRs: ["10.244.1.0/24"], taints: [{ key: "x", effect: "NoSchedule" }] },
      status: { addresses: [{ type: "InternalIP", address: "192.168.0.2" }] },
    },
    percent,
  );
}

/** More endpoints than any list should have. */
export function hugeService(endpoints: number): RawService {
  const metadata = { namespace: "default", name: "huge", uid: "huge" };
  const service = {
    metadata,
    spec: {
      type: "ClusterIP",
      clusterIP: "10.96.255.1",
      clusterIPs: ["10.96.255.1"],
      ports: [{ port: 80, protocol: "TCP" }],
    },
  };
  const list = Array.from({ length: endpoints }, (_, i) => ({
    addresses: [`10.${100 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`],
    conditions: { ready: true },
  }));
  const slices = Array.from({ length: Math.ceil(endpoints / 1000) }, (_, i) => ({
    metadata: { namespace: "default", name: `huge-${i}`, labels: { "kubernetes.io/service-name": "huge" } },
    addressType: "IPv4",
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    endpoints: list.slice(i * 1000, (i + 1) * 1000),
  }));
  return { service, slices };
}

// --- internal ---

function broken(random: Random, value: unknown, percent: number): unknown {
  if (random.chance(percent)) return replacement(random, value);
  if (Array.isArray(value)) {
    const list = value.map((v) => broken(random, v, percent));
    if (random.chance(percent)) list.push(random.pick(odd));
    const first = list[0];
    if (first !== undefined && random.chance(percent)) list.push(structuredClone(first));
    return list;
  }
  if (typeof value !== "object" || value === null) return value;
  const made: Raw = {};
  for (const [key, v] of Object.entries(value)) if (!random.chance(percent / 2)) made[key] = broken(random, v, percent);
  // As JSON.parse would make it: an own property of that name.
  if (random.chance(percent)) Object.defineProperty(made, "__proto__", { value: { polluted: true }, enumerable: true });
  return made;
}

function replacement(random: Random, value: unknown): unknown {
  if (typeof value === "number") return random.pick(numbers);
  if (typeof value === "string") {
    if (/^[0-9a-f.:/]+$/.test(value) && /[.:]/.test(value)) return random.pick(addresses);
    return random.pick([random.pick(texts), random.pick(texts), random.pick(words), random.pick(odd)]);
  }
  return random.pick(odd);
}
