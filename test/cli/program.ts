/** The program as users run it, in this test's own network namespaces; and manifests for it. */
import { mkdtempSync, writeFileSync } from "node:fs";

/** The built binary when KUBE_PROXY names it, else the sources. */
export const program: readonly string[] =
  process.env["KUBE_PROXY"] === undefined
    ? [process.execPath, `${import.meta.dir}/../../src/main.ts`]
    : [process.env["KUBE_PROXY"]];

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export async function sh(command: readonly string[], input = ""): Promise<Ran> {
  const child = Bun.spawn([...command], { stdin: new TextEncoder().encode(input), stdout: "pipe", stderr: "pipe" });
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  await child.exited;
  return { code: child.exitCode, out, err };
}

export function kubeProxy(...args: readonly string[]): Promise<Ran> {
  return sh([...program, ...args]);
}

/** Why kernel tests cannot run here, or undefined. */
export function kernelUnavailable(...tools: readonly string[]): string | undefined {
  if (process.getuid?.() !== 0) return "not root";
  const absent = ["unshare", "nsenter", ...tools].filter((tool) => Bun.which(tool) === null);
  return absent.length > 0 ? `not installed: ${absent.join(", ")}` : undefined;
}

/** Lives as long as this process, or until `close`. */
export class Net {
  readonly #holder: Bun.Subprocess<"pipe", "pipe", "inherit">;

  private constructor(holder: Bun.Subprocess<"pipe", "pipe", "inherit">) {
    this.#holder = holder;
  }

  static async open(): Promise<Net> {
    const up = "ip link set lo up && ip addr add 192.0.2.1/32 dev lo && echo ready && exec cat";
    const holder = Bun.spawn(["unshare", "--net", "sh", "-c", up], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
    await holder.stdout.getReader().read();
    return new Net(holder);
  }

  enter(command: readonly string[]): readonly string[] {
    return ["nsenter", `--net=/proc/${this.#holder.pid}/ns/net`, ...command];
  }

  sh(script: string): Promise<Ran> {
    return sh(this.enter(["sh", "-c", script]));
  }

  kubeProxy(...args: readonly string[]): Promise<Ran> {
    return sh(this.enter([...program, ...args]));
  }

  /** A process in it; end it by its pid. */
  start(...args: readonly string[]): Bun.Subprocess<"ignore", "pipe", "pipe"> {
    return Bun.spawn([...this.enter([...program, ...args])], { stdout: "pipe", stderr: "pipe", stdin: "ignore" });
  }

  close(): void {
    this.#holder.kill("SIGKILL");
  }
}

export function folder(files: Readonly<Record<string, string>>): string {
  const path = mkdtempSync("/tmp/kp-cli-");
  for (const [name, text] of Object.entries(files)) writeFileSync(`${path}/${name}`, text);
  return path;
}

export const node = `apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/zone: z1}}
spec: {podCIDRs: [10.1.0.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
`;

/** A Service with a node port, an external IP and affinity, three endpoints of which one is local. */
export const web = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  type: NodePort
  clusterIP: 10.0.0.10
  externalIPs: [203.0.113.7]
  sessionAffinity: ClientIP
  ports:
  - {name: http, port: 80, protocol: TCP, nodePort: 30080}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.1.0.5], nodeName: n1}
- {addresses: [10.1.1.5], nodeName: n2}
- {addresses: [10.1.1.6], nodeName: n2}
`;

/** A Service without endpoints. */
export const empty = `apiVersion: v1
kind: Service
metadata: {name: empty, namespace: shop}
spec: {clusterIP: 10.0.0.11, ports: [{port: 53, protocol: UDP}]}
`;

/** IPv6 only. */
export const six = `apiVersion: v1
kind: Service
metadata: {name: six, namespace: shop}
spec: {clusterIP: "fd00::10", ipFamilies: [IPv6], ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: six-1, namespace: shop, labels: {kubernetes.io/service-name: six}}
addressType: IPv6
ports: [{name: "", port: 8080}]
endpoints: [{addresses: ["fd01::5"]}]
`;

export function cluster(): string {
  return folder({ "node.yaml": node, "web.yaml": web, "empty.yaml": empty, "six.yaml": six });
}

export async function until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 30_000;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`never happened: ${what}`);
    await Bun.sleep(100);
  }
}
