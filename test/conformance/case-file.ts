/** Reads a recorded case: its objects, configuration and the files of what kube-proxy left after each step. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { parse, stringify } from "yaml";

export type Mode = "iptables" | "nftables" | "ipvs";

export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

export interface Case {
  readonly name: string;
  readonly about: string;
  readonly modes: readonly Mode[];
  readonly config: Readonly<Record<string, unknown>>;
  readonly args: readonly string[];
  readonly node: NodeShape;
  readonly host: HostShape;
  readonly steps: readonly Step[];
}

interface NodeShape {
  readonly name: string;
  readonly internalIPs: readonly string[];
  readonly podCIDRs: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

interface HostShape {
  readonly addrs: Readonly<Record<string, readonly string[]>>;
  readonly sysctls?: Readonly<Record<string, number | string>>;
  readonly commands?: readonly string[];
}

interface Step {
  readonly apply?: readonly ApiObject[];
  readonly delete?: readonly ApiObject[];
  readonly healthCheckPorts?: readonly number[];
}

export const casesDir = `${import.meta.dir}/cases`;

const defaultNode: NodeShape = {
  name: "node-1",
  internalIPs: ["192.168.0.2", "fd00:192:168::2"],
  podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"],
  labels: { "kubernetes.io/hostname": "node-1", "topology.kubernetes.io/zone": "zone-a" },
};

const defaultHost: HostShape = { addrs: { eth0: ["192.168.0.2/24", "fd00:192:168::2/64"] } };

/** Names of the cases that apply to a mode, sorted. */
export function casesOf(mode: Mode): readonly string[] {
  return readdirSync(casesDir)
    .filter((name) => readCase(name).modes.includes(mode))
    .sort();
}

export function readCase(name: string): Case {
  const raw = parse(readFileSync(`${casesDir}/${name}/case.yaml`, "utf8"));
  return {
    name,
    about: raw.about,
    modes: raw.modes ?? ["iptables", "nftables", "ipvs"],
    config: raw.config ?? {},
    args: raw.args ?? [],
    node: raw.node === undefined ? defaultNode : { ...defaultNode, ...raw.node },
    host: { ...defaultHost, ...raw.host },
    steps: raw.steps,
  };
}

/** What kube-proxy left after a step (from 1), by WHAT; an absent file means that nothing was there. */
export function recorded(name: string, mode: Mode, step: number): ReadonlyMap<string, string> {
  const dir = `${casesDir}/${name}/${mode}`;
  const files = existsSync(dir) ? readdirSync(dir).filter((f) => f.startsWith(`${step}.`)) : [];
  return new Map(
    files.map((f) => {
      const what = f.slice(`${step}.`.length);
      const text = readFileSync(`${dir}/${f}`, "utf8");
      return [what, name === "service-cidr" ? withUnallocatedDrop(text, what, step) : text];
    }),
  );
}

/**
 * The one known difference: kube-proxy writes the rule that drops unallocated cluster IPs only in a full sync, so a
 * ServiceCIDR that appears later (as in this case) waits for up to an hour. Ours is there at once.
 */
function withUnallocatedDrop(text: string, what: string, step: number): string {
  if (!what.startsWith("nft-")) return text;
  // Step 2 adds 10.97.0.0/16, which nft merges with its neighbour.
  const four = step === 1 ? "10.96.0.0/16" : "{ 10.96.0.0/15 }";
  const [family, cidrs] = what === "nft-ip" ? ["ip", four] : ["ip6", "fd00:10:96::/108"];
  const rule = `  ${family} daddr ${cidrs} drop comment "Drop traffic to unallocated ClusterIPs"\n`;
  return text.replace(/(chain cluster-ips-check\n(?: {2}.*\n)*)/, `$1${rule}`);
}

/** The configuration file: the base of test/conformance/README.md with the case's own laid over it. */
export function configText(test: Case, mode: Mode, kubeconfig: string): string {
  const base: Record<string, unknown> = {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode,
    clientConnection: { kubeconfig, contentType: "application/json" },
    clusterCIDR: "10.244.0.0/16,fd00:10:244::/56",
    conntrack: { maxPerCore: 0, min: 0 },
    iptables: { minSyncPeriod: "100ms" },
    ipvs: { minSyncPeriod: "100ms" },
    nftables: { minSyncPeriod: "100ms" },
  };
  for (const [key, value] of Object.entries(test.config)) {
    if (value === null) delete base[key];
    else if (typeof value === "object" && !Array.isArray(value)) base[key] = { ...(base[key] as object), ...value };
    else base[key] = value;
  }
  return stringify(base);
}

export function nodeObject({ name, internalIPs, podCIDRs, labels }: NodeShape): ApiObject {
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels },
    spec: { podCIDR: podCIDRs[0], podCIDRs },
    status: { addresses: internalIPs.map((address) => ({ type: "InternalIP", address })) },
  };
  return node;
}
