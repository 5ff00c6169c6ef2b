/**
 * The real binary against our API server, in the network namespace that this process is in: `scripts/test process` runs
 * these files under `unshare -n -m`, so that rules, sysctls and ports are the tests' own.
 */

import { afterAll, setDefaultTimeout } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../api/server.ts";

/** Outside of `bun test` (test/soak/run.ts) these are refused: there the caller ends what it starts. */
function inTests(register: () => void): void {
  try {
    register();
  } catch {}
}

inTests(() => setDefaultTimeout(60_000));

export const binary = process.env["KUBE_PROXY"] ?? `${import.meta.dir}/../../dist/kube-proxy`;

/** Undefined: fit; else why these tests skip. */
export function unfit(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  if (existsSync("/sys/class/net/eth1") || process.env["KP_NETNS"] !== "1")
    return "runs in a namespace: scripts/test process";
  return existsSync(binary) ? undefined : "needs dist/kube-proxy: scripts/build";
}

const reason = unfit();
if (reason !== undefined) console.log(`skipped: ${reason}`);
export const fit = reason === undefined;

export function sh(command: string): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync(["sh", "-c", command]);
  if (exitCode !== 0) throw new Error(`${command}: ${stderr.toString().trim()}`);
  return stdout.toString();
}

export function tryRun(command: string): string {
  return Bun.spawnSync(["sh", "-c", command], { stderr: "ignore" }).stdout.toString();
}

/** eth0 with the node's addresses, no rules. */
export function resetHost(): void {
  tryRun(
    "nft flush ruleset; iptables-legacy -t nat -F; iptables-legacy -t nat -X; iptables-legacy -F; iptables-legacy -X; ip link del eth0; conntrack -F",
  );
  sh("ip link set lo up; ip link add eth0 type veth peer name eth0p; ip link set eth0 up; ip link set eth0p up");
  sh(
    "ip addr add 192.168.0.2/24 dev eth0; ip addr add fd00:192:168::2/64 dev eth0 nodad; ip route add default dev eth0; ip -6 route add default dev eth0",
  );
  sh("sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
}

export interface ProxyOptions {
  readonly mode?: "iptables" | "nftables";
  readonly config?: Readonly<Record<string, unknown>>;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Words before the binary's path: `unshare -p -f …`. */
  readonly wrapper?: readonly string[];
  /** Text of the kubeconfig; default: the server's own. */
  readonly kubeconfig?: string;
  readonly hostname?: string | null;
}

/** One run of the binary. */
export class ProxyRun {
  readonly dir: string;
  readonly configFile: string;
  readonly process: Bun.Subprocess;
  readonly #log: string;

  constructor(dir: string, configFile: string, process: Bun.Subprocess, log: string) {
    this.dir = dir;
    this.configFile = configFile;
    this.process = process;
    this.#log = log;
  }

  log(): string {
    return readFileSync(this.#log, "utf8");
  }

  /** Waits for the exit; kills and fails after 20 s. */
  async exit(): Promise<number> {
    const timer = setTimeout(() => this.process.kill("SIGKILL"), 20_000);
    await this.process.exited;
    clearTimeout(timer);
    if (this.process.signalCode !== null)
      throw new Error(`did not exit by itself: ${this.process.signalCode}\n${this.log()}`);
    return this.process.exitCode ?? -1;
  }

  async stop(): Promise<void> {
    this.process.kill("SIGKILL");
    await this.process.exited;
  }
}

const runs: { stop(): Promise<void> }[] = [];
const dirs: string[] = [];
inTests(() =>
  afterAll(async () => {
    for (const run of runs) await run.stop();
    for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
  }),
);

export function newDir(): string {
  const dir = mkdtempSync("/tmp/kp-process-");
  dirs.push(dir);
  return dir;
}

export function newApi(options: ApiServerOptions = {}): ApiServer {
  const api = startApiServer(options);
  runs.push(api);
  return api;
}

export function startProxy(api: ApiServer | undefined, options: ProxyOptions = {}): ProxyRun {
  const dir = newDir();
  const kubeconfig = `${dir}/kubeconfig`;
  writeFileSync(kubeconfig, options.kubeconfig ?? api?.kubeconfig() ?? "");
  const mode = options.mode ?? "nftables";
  const config = {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode,
    clientConnection: { kubeconfig, contentType: "application/json", qps: 100, burst: 100 },
    clusterCIDR: "10.244.0.0/16,fd00:10:244::/56",
    conntrack: { maxPerCore: 0, min: 0 },
    [mode]: { minSyncPeriod: "50ms", syncPeriod: "1s" },
    ...options.config,
  };
  const configFile = `${dir}/config.yaml`;
  writeFileSync(configFile, JSON.stringify(config));
  const hostname = options.hostname === null ? [] : ["--hostname-override", options.hostname ?? "node-1"];
  const args = ["--config", configFile, ...hostname, ...(options.args ?? [])];
  return track(spawnBinary(args, dir, configFile, options.env, options.wrapper));
}

/** The binary with just these arguments. */
export function runBinary(args: readonly string[], env: Readonly<Record<string, string>> = {}): ProxyRun {
  return track(spawnBinary(args, newDir(), "", env));
}

/** Waits until the condition holds; on time-out throws what `about` says. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  about: () => string,
  limitMs = 20_000,
): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`gave up after ${limitMs} ms: ${about()}`);
    await Bun.sleep(20);
  }
}

export async function get(
  url: string,
  init: RequestInit = {},
): Promise<{ status: number; body: string; headers: Headers }> {
  const response = await fetch(url, { signal: AbortSignal.timeout(5_000), keepalive: false, ...init });
  return { status: response.status, body: await response.text(), headers: response.headers };
}

/** Status of a URL; 0 when nobody answers. */
export async function statusOf(url: string): Promise<number> {
  try {
    return (await get(url)).status;
  } catch {
    return 0;
  }
}

export async function metric(name: string): Promise<number> {
  const { body } = await get("http://127.0.0.1:10249/metrics");
  const line = body.split("\n").find((l) => l.startsWith(`${name} `) || l.startsWith(`${name}{`));
  return line === undefined ? Number.NaN : Number(line.slice(line.lastIndexOf(" ") + 1));
}

export const healthy = async (): Promise<boolean> => (await statusOf("http://127.0.0.1:10256/healthz")) === 200;

export function nftTable(family = "ip"): string {
  return tryRun(`nft list table ${family} kube-proxy`);
}

function track(run: ProxyRun): ProxyRun {
  runs.push(run);
  return run;
}

function spawnBinary(
  args: readonly string[],
  dir: string,
  configFile: string,
  env: Readonly<Record<string, string>> = {},
  wrapper: readonly string[] = [],
): ProxyRun {
  const log = `${dir}/log`;
  const out = Bun.file(log);
  const child = Bun.spawn([...wrapper, binary, ...args], {
    cwd: dir,
    stdout: out,
    stderr: out,
    env: { ...process.env, ...env },
  });
  return new ProxyRun(dir, configFile, child, log);
}
