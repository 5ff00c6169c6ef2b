/**
 * One measured run in namespaces of its own: `unshare -n -m bun test/bench/worker.ts JSON`, JSON = WorkerInput.
 * Prints one JSON line. Works with any kube-proxy binary: it uses flags, API and metrics only.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { nodeObject, type Size, serviceObject, sliceObject, wideService, wideSlice } from "./cluster.ts";
import { median, usageOf } from "./process.ts";

export interface WorkerInput extends Size {
  readonly binary: string;
  readonly mode: "iptables" | "nftables" | "ipvs";
  readonly changes: number;
  readonly gates?: string;
  /** Also: burst, restart, idle. */
  readonly all: boolean;
}

export type Figures = Record<string, number>;

const input: WorkerInput = JSON.parse(process.argv[2] ?? "{}");
const dir = mkdtempSync("/tmp/kp-bench-");
const socket = `${dir}/api.sock`;
let current: Bun.Subprocess | undefined;
const kubeconfig = `${dir}/kubeconfig`;

console.log(JSON.stringify(await main()));
process.exit(0);

async function main(): Promise<Figures> {
  sh(
    "ip link set lo up && ip link add eth0 type veth peer name eth0p && ip link set eth0 up && ip link set eth0p up && ip addr add 192.168.0.2/24 dev eth0 && ip route add default dev eth0 && sysctl -qw net.ipv4.ip_forward=1",
  );
  const api = Bun.spawn(
    [
      process.execPath,
      `${import.meta.dir}/../api/main.ts`,
      "--port",
      "0",
      "--kubeconfig-out",
      kubeconfig,
      "--control-socket",
      socket,
    ],
    { stdout: "ignore", stderr: "inherit" },
  );
  await until(() => Bun.file(kubeconfig).exists(), 10_000);
  const figures: Figures = {};
  try {
    await fill();
    writeFileSync(`${dir}/config.yaml`, configText());
    const first = await start(figures);
    await changes(first.pid, figures);
    if (input.all) await burst(first.pid, figures);
    if (input.all) await rolling(first.pid, figures);
    if (input.all) await idle(first.pid, figures);
    Object.assign(figures, await stages());
    Object.assign(figures, raw());
    await stop(first);
    if (input.all) await restart(figures);
  } finally {
    api.kill("SIGKILL");
    await api.exited;
    rmSync(dir, { recursive: true });
  }
  return figures;
}

function configText(): string {
  const config = {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: input.mode,
    ...(input.gates === undefined ? {} : { featureGates: { [input.gates]: true } }),
    clientConnection: { kubeconfig, contentType: "application/json" },
    clusterCIDR: "10.244.0.0/16",
    nodePortAddresses: ["primary"],
    conntrack: { maxPerCore: 0, min: 0 },
    [input.mode]: { minSyncPeriod: "100ms" },
  };
  return JSON.stringify(config);
}

async function fill(): Promise<void> {
  const objects: unknown[] = [nodeObject()];
  for (let i = 0; i < input.services; i++) objects.push(serviceObject(i), sliceObject(i, input));
  for (let at = 0; at < objects.length; at += 2000) await apply(objects.slice(at, at + 2000));
}

/** From exec to the first successful sync. */
async function start(figures: Figures, prefix = "first"): Promise<Bun.Subprocess> {
  const began = Date.now();
  const args = ["--config", `${dir}/config.yaml`, "--hostname-override", "node-1"];
  const proxy = Bun.spawn([input.binary, ...args], { stdout: Bun.file(`${dir}/log`), stderr: Bun.file(`${dir}/log`) });
  current = proxy;
  await until(async () => (await lastSync()) > began, 900_000);
  figures[`${prefix}_sync_ms`] = (await lastSync()) - began;
  const usage = usageOf(proxy.pid);
  figures[`${prefix}_own_cpu_ms`] = usage.own;
  figures[`${prefix}_tools_cpu_ms`] = usage.tools;
  return proxy;
}

async function changes(pid: number, figures: Figures): Promise<void> {
  await Bun.sleep(3_000);
  const before = usageOf(pid);
  const times: number[] = [];
  for (let n = 1; n <= input.changes; n++) {
    const i = (n * 7919) % input.services;
    const at = Date.now();
    await apply([sliceObject(i, input, n)]);
    await until(async () => (await lastSync()) >= at, 120_000);
    times.push((await lastSync()) - at);
    await Bun.sleep(250);
  }
  const after = usageOf(pid);
  figures["change_ms"] = median(times);
  figures["change_own_cpu_ms"] = (after.own - before.own) / input.changes;
  figures["change_tools_cpu_ms"] = (after.tools - before.tools) / input.changes;
  const news: number[] = [];
  const gone: number[] = [];
  for (let n = 0; n < 5; n++) {
    const at = Date.now();
    await apply([serviceObject(input.services + n), sliceObject(input.services + n, input)]);
    await until(async () => (await lastSync()) >= at, 120_000);
    news.push((await lastSync()) - at);
    await Bun.sleep(400);
    const then = Date.now();
    await remove("Service", `svc-${input.services + n}`);
    await until(async () => (await lastSync()) >= then, 120_000);
    gone.push((await lastSync()) - then);
    await Bun.sleep(400);
  }
  figures["new_service_ms"] = median(news);
  figures["removed_service_ms"] = median(gone);
  const { resident, anonymous } = usageOf(pid);
  figures["resident_mb"] = resident;
  figures["anonymous_mb"] = anonymous;
}

/** 1,000 slices changed within two seconds, until all of it is programmed. */
async function burst(pid: number, figures: Figures): Promise<void> {
  const before = usageOf(pid);
  const count = Math.min(1000, input.services);
  const began = Date.now();
  for (let batch = 0; batch < 20; batch++) {
    const from = (batch * count) / 20;
    await apply(Array.from({ length: count / 20 }, (_, k) => sliceObject(from + k, input, 5000 + batch)));
    await Bun.sleep(Math.max(0, began + (batch + 1) * 100 - Date.now()));
  }
  const end = Date.now();
  await until(async () => (await lastSync()) >= end || Date.now() - end > 3_000, 300_000);
  await Bun.sleep(500);
  await until(async () => (await pending()) === 0, 300_000);
  figures["burst_ms"] = (await lastSync()) - began;
  const after = usageOf(pid);
  figures["burst_own_cpu_ms"] = after.own - before.own;
  figures["burst_tools_cpu_ms"] = after.tools - before.tools;
}

/** A Service with 1,000 endpoints that are all replaced, a slice at a time. */
async function rolling(pid: number, figures: Figures): Promise<void> {
  await apply([wideService(), ...Array.from({ length: 10 }, (_, part) => wideSlice(part, 0))]);
  await Bun.sleep(2_000);
  const before = usageOf(pid);
  const began = Date.now();
  let last = began;
  for (let part = 0; part < 10; part++) {
    last = Date.now();
    await apply([wideSlice(part, 1)]);
    await Bun.sleep(100);
  }
  await until(async () => (await lastSync()) >= last, 120_000);
  const after = usageOf(pid);
  figures["rolling_ms"] = (await lastSync()) - began;
  figures["rolling_own_cpu_ms"] = after.own - before.own;
  figures["rolling_tools_cpu_ms"] = after.tools - before.tools;
  await remove("Service", "wide");
  await Bun.sleep(1_000);
}

/** Mean milliseconds of each stage over all syncs of IPv4, where the proxy tells (ours does). */
async function stages(): Promise<Figures> {
  const body = await scrape();
  const out: Figures = {};
  for (const [, stage = "", sum] of body.matchAll(
    /^kubeproxy_sync_stage_duration_seconds_sum\{ip_family="IPv4",stage="(\w+)"\} (\S+)$/gm,
  )) {
    const count = new RegExp(
      `^kubeproxy_sync_stage_duration_seconds_count\\{ip_family="IPv4",stage="${stage}"\\} (\\S+)$`,
      "m",
    ).exec(body);
    out[`stage_${stage}_mean_ms`] = (1000 * Number(sum)) / Number(count?.[1] ?? 1);
  }
  return out;
}

async function idle(pid: number, figures: Figures): Promise<void> {
  await Bun.sleep(5_000);
  const before = usageOf(pid);
  await Bun.sleep(10_000);
  const after = usageOf(pid);
  figures["idle_cpu_ms_per_s"] = (after.own + after.tools - before.own - before.tools) / 10;
  figures["idle_resident_mb"] = after.resident;
}

/** Everything is in place already. */
async function restart(figures: Figures): Promise<void> {
  const again = await start(figures, "restart");
  await stop(again);
}

/** What the tool alone needs for the same rules, in a fresh namespace. */
function raw(): Figures {
  const [save, load] =
    input.mode === "nftables"
      ? [`nft list table ip kube-proxy > ${dir}/rules`, `nft -f ${dir}/rules`]
      : [`iptables-save | grep -v nfacct > ${dir}/rules`, `iptables-restore < ${dir}/rules`];
  if (input.mode === "ipvs") return {};
  sh(save);
  const times = [1, 2, 3].map(() => {
    const began = performance.now();
    sh(`unshare -n sh -c '${load}'`);
    return performance.now() - began;
  });
  return { raw_load_ms: median(times), ...rawChange() };
}

/** The compact layout: the tool alone replaces the endpoints of one Service in the same table. */
function rawChange(): Figures {
  if (input.gates !== "KubeProxyNFTablesCompact") return {};
  const keys = Array.from({ length: input.endpoints }, (_, i) => `10.96.0.2 . 80 . ${i}`);
  const map = "element ip kube-proxy tcp-endpoints";
  const added = keys.map((key) => `${key} : 10.248.0.1 . 8080`);
  writeFileSync(`${dir}/change`, `delete ${map} { ${keys.join(", ")} }\nadd ${map} { ${added.join(", ")} }\n`);
  const loop = `for i in 1 2 3 4 5 6 7 8 9 10; do s=$(date +%s%N); nft -f ${dir}/change; e=$(date +%s%N); echo $((e-s)); done`;
  const { stdout } = Bun.spawnSync(["unshare", "-n", "sh", "-c", `nft -f ${dir}/rules && ${loop}`]);
  const times = stdout
    .toString()
    .trim()
    .split("\n")
    .map((ns) => Number(ns) / 1e6);
  return { raw_change_ms: median(times) };
}

async function stop(proxy: Bun.Subprocess): Promise<void> {
  proxy.kill("SIGTERM");
  const timer = setTimeout(() => proxy.kill("SIGKILL"), 5_000);
  current = undefined;
  await proxy.exited;
  clearTimeout(timer);
}

async function control(path: string, body: unknown): Promise<void> {
  const response = await fetch(`http://x/_control/${path}`, {
    unix: socket,
    method: "POST",
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`control ${path}: ${response.status} ${await response.text()}`);
}

function apply(objects: readonly unknown[]): Promise<void> {
  return control("apply", objects);
}

function remove(kind: string, name: string): Promise<void> {
  return control("delete", { kind, namespace: "bench", name });
}

/** Milliseconds since the epoch of the last successful IPv4 sync; 0: none. */
async function lastSync(): Promise<number> {
  return (await metric(/^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{ip_family="IPv4"\} (\S+)$/m)) * 1000;
}

async function pending(): Promise<number> {
  return await metric(/^kubeproxy_sync_proxy_rules_endpoint_changes_pending (\S+)$/m);
}

async function metric(pattern: RegExp): Promise<number> {
  return Number(pattern.exec(await scrape())?.[1] ?? 0);
}

/** Text of /metrics; empty while nobody answers. */
async function scrape(): Promise<string> {
  try {
    const response = await fetch("http://127.0.0.1:10249/metrics", { signal: AbortSignal.timeout(20_000) });
    return await response.text();
  } catch {
    return "";
  }
}

async function until(condition: () => Promise<boolean>, limitMs: number): Promise<void> {
  const end = performance.now() + limitMs;
  while (!(await condition())) {
    if (performance.now() > end || (current?.exitCode ?? null) !== null)
      throw new Error(`gave up after ${limitMs} ms; log: ${(await Bun.file(`${dir}/log`).text()).slice(-1500)}`);
    await Bun.sleep(100);
  }
}

function sh(command: string): void {
  const { exitCode, stderr } = Bun.spawnSync(["sh", "-c", command], { stdout: "ignore" });
  if (exitCode !== 0) throw new Error(`${command}: ${stderr.toString().trim()}`);
}
