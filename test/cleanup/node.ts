/** A node in one namespace and a client in another: API server, endpoints, Services, and probers on both sides. */
import { readFileSync, writeFileSync } from "node:fs";
import type { ProbeResult } from "./prober.ts";
import { binary, Space, until } from "./space.ts";

export type Mode = "iptables" | "nftables" | "ipvs";

const endpoints = ["10.244.1.5", "10.244.1.6", "fd00:10:244:1::5", "fd00:10:244:1::6"];
const clusterIPs = ["10.96.0.10", "fd00:10:96::10"];
const nodePort = 30080;
const nodeIPs = ["192.168.0.2", "fd00:192:168::2"];

export interface Losses {
  readonly attempts: number;
  readonly failed: number;
  readonly failures: readonly string[];
  /** SYNs sent again, of both sides, beyond what full accept queues explain: each is a packet that was lost. */
  readonly lostPackets: number;
}

export interface Proxy {
  readonly log: () => string;
  /** By signal, and waits for the end. */
  stop(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
}

export class Node {
  #probers: { readonly child: Bun.Subprocess; readonly log: string }[] = [];
  #counters = 0;
  #proxies = 0;

  private constructor(
    readonly space: Space,
    readonly client: Space,
    private readonly patience: number,
  ) {}

  /** `patience`: seconds until something must have happened. */
  static async open(variant: "nft" | "legacy" = "nft", patience = 60): Promise<Node> {
    const node = new Node(await Space.open(variant), await Space.open(variant), patience);
    await node.#build();
    return node;
  }

  async #build(): Promise<void> {
    const { space, client } = this;
    const link = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns"];
    space.must([...link, String(client.pid)]);
    for (const [side, v4, v6] of [
      [space, "192.168.0.2/24", "fd00:192:168::2/64"],
      [client, "192.168.0.9/24", "fd00:192:168::9/64"],
    ] as const) {
      side.must(["ip", "addr", "add", v4, "dev", "eth0"]);
      side.must(["ip", "addr", "add", v6, "dev", "eth0", "nodad"]);
      side.must(["ip", "link", "set", "eth0", "up"]);
      side.must(["sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000", "net.core.somaxconn=4096"]);
      side.must(["sysctl", "-qw", "net.ipv6.conf.all.accept_dad=0"]);
    }
    for (const ip of endpoints) space.must(["ip", "addr", "add", ip, "dev", "lo"]);
    for (const side of [space, client]) {
      const via = side === client ? nodeIPs : ["192.168.0.9", "fd00:192:168::9"];
      side.must(["ip", "route", "add", "default", "via", via[0] ?? ""]);
      side.must(["ip", "-6", "route", "add", "default", "via", via[1] ?? ""]);
    }
    space.must(["sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]);
    const greeter = this.#bun(
      space,
      "greeter.ts",
      "greeter",
      endpoints.flatMap((ip) => [ip, "8080"]),
    );
    await until("the endpoints listen", () => greeter.text().includes("listening"));
    writeFileSync(`${space.dir}/objects.yaml`, objects());
    const api = ["--objects", `${space.dir}/objects.yaml`, "--kubeconfig-out", this.kubeconfig];
    const server = this.#bun(space, "../api/main.ts", "api", api);
    await until("the API server is up", () => server.text().includes("http"), server.text, this.patience);
  }

  get kubeconfig(): string {
    return `${this.space.dir}/kubeconfig`;
  }

  #bun(space: Space, script: string, name: string, args: readonly string[]) {
    const log = `${space.dir}/${name}.log`;
    const child = space.start([process.execPath, `${import.meta.dir}/${script}`, ...args], log);
    return { child, log, text: () => readFileSync(log, "utf8") };
  }

  /** Starts a proxy and waits until its rules are in; `program`: another binary than the one under test. */
  async start(
    mode: Mode,
    program = binary,
    ready = (log: string) => log.includes("Rules are in place"),
  ): Promise<Proxy> {
    const name = `proxy-${++this.#proxies}`;
    const config = `${this.space.dir}/${name}.yaml`;
    writeFileSync(config, configuration(mode, this.kubeconfig));
    const log = `${this.space.dir}/${name}.log`;
    const child = this.space.start([program, "--config", config, "--hostname-override", "node-1", "-v", "2"], log);
    const text = () => readFileSync(log, "utf8");
    const isUp = () => {
      if (child.exitCode !== null) throw new Error(`the proxy ended with ${child.exitCode}:\n${text()}`);
      return ready(text());
    };
    await until(`${mode} mode is up`, isUp, text, this.patience);
    return {
      log: text,
      stop: async (signal) => {
        child.kill(signal);
        await child.exited;
      },
    };
  }

  /** 1,000 connects a second from now on: half from the node itself, half from the client. */
  async startProbing(rate = 1000): Promise<void> {
    const half = String(rate / 2);
    const services = clusterIPs.flatMap((ip) => [ip, "80"]);
    const ports = nodeIPs.flatMap((ip) => [ip, String(nodePort)]);
    this.#counters = this.#retransmitted();
    const probers = [
      this.#bun(this.space, "prober.ts", "prober", [half, ...services]),
      this.#bun(this.client, "prober.ts", "prober", [half, ...services, ...ports]),
    ];
    this.#probers = probers;
    for (const { text } of probers)
      await until("the prober runs", () => text().includes("probing"), text, this.patience);
  }

  async stopProbing(): Promise<Losses> {
    const results: ProbeResult[] = [];
    for (const { child, log } of this.#probers) {
      child.kill("SIGTERM");
      await child.exited;
      results.push(JSON.parse(readFileSync(log, "utf8").trim().split("\n").at(-1) ?? ""));
    }
    return {
      attempts: results.reduce((sum, r) => sum + r.attempts, 0),
      failed: results.reduce((sum, r) => sum + r.failed, 0),
      failures: results.flatMap((r) => r.failures),
      lostPackets: this.#retransmitted() - this.#counters,
    };
  }

  #retransmitted(): number {
    const count = (space: Space, name: string) => {
      const [names = "", values = ""] = space.must(["grep", "^TcpExt", "/proc/net/netstat"]).split("\n");
      return Number(values.split(" ")[names.split(" ").indexOf(name)]);
    };
    const sum = (name: string) => count(this.space, name) + count(this.client, name);
    return Math.max(0, sum("TCPSynRetrans") - 2 * sum("ListenOverflows"));
  }

  async close(): Promise<void> {
    await this.client.close();
    await this.space.close();
  }
}

// --- internal ---

function configuration(mode: Mode, kubeconfig: string): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: ${mode}
clientConnection: {kubeconfig: ${kubeconfig}}
clusterCIDR: 10.244.0.0/16,fd00:10:244::/56
conntrack: {maxPerCore: 0, min: 0}
`;
}

function objects(): string {
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node-1", labels: {} },
    spec: { podCIDRs: ["10.244.1.0/24", "fd00:10:244:1::/64"] },
    status: { addresses: nodeIPs.map((address) => ({ type: "InternalIP", address })) },
  };
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "default", uid: "web" },
    spec: {
      type: "NodePort",
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "RequireDualStack",
      ports: [{ name: "http", port: 80, protocol: "TCP", targetPort: 8080, nodePort }],
    },
  };
  const slice = (addressType: "IPv4" | "IPv6") => ({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: `web-${addressType.toLowerCase()}`,
      namespace: "default",
      labels: { "kubernetes.io/service-name": "web" },
    },
    addressType,
    ports: [{ name: "http", port: 8080, protocol: "TCP" }],
    endpoints: endpoints
      .filter((ip) => ip.includes(":") === (addressType === "IPv6"))
      .map((ip) => ({ addresses: [ip], conditions: { ready: true }, nodeName: "node-1" })),
  });
  return [node, service, slice("IPv4"), slice("IPv6")].map((o) => JSON.stringify(o)).join("\n---\n");
}
