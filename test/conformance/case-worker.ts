/**
 * Plays one recorded case against the real binary. Runs inside a network and mount namespace of its own:
 * `unshare -n -m bun test/conformance/case-worker.ts MODE CASE`. Prints one JSON line: {case, mode, differences}.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { startApiServer } from "../api/server.ts";
import { type Case, configText, type Mode, nodeObject, readCase, recorded } from "./case-file.ts";
import { canonicalRecordedAnswers, kindsOf, readState } from "./kernel-state.ts";

const binary = process.env["KUBE_PROXY"] ?? `${import.meta.dir}/../../dist/kube-proxy`;
/** A step must have reached its state after this; it usually takes a tenth of a second. */
const patience = Number(process.env["KP_PATIENCE_MS"] ?? 15_000);

interface Difference {
  readonly step: number;
  readonly what: string;
  readonly expected: string;
  readonly actual: string;
}

const [mode, name] = process.argv.slice(2) as [Mode, string];
console.log(JSON.stringify(await play(readCase(name), mode)));
process.exit(0);

async function play(test: Case, mode: Mode): Promise<object> {
  const dir = mkdtempSync("/tmp/kp-case-");
  prepareHost(test);
  const api = startApiServer();
  api.apply(nodeObject(test.node) as never);
  writeFileSync(`${dir}/config.yaml`, configText(test, mode, api.writeKubeconfig({}, `${dir}/kubeconfig`)));
  const log = `${dir}/log`;
  const args = ["--config", `${dir}/config.yaml`, "--hostname-override", test.node.name, ...test.args];
  const proxy = Bun.spawn([binary, ...args], { stdout: Bun.file(log), stderr: Bun.file(log) });
  const differences: Difference[] = [];
  try {
    for (const [i, step] of test.steps.entries()) {
      const applied = Date.now();
      for (const object of step.apply ?? []) api.apply(object as never);
      for (const { kind, metadata } of step.delete ?? []) api.remove(kind, metadata.namespace ?? "", metadata.name);
      const found = await settle(
        test,
        mode,
        i + 1,
        step.healthCheckPorts ?? [],
        applied,
        () => proxy.exitCode !== null,
      );
      differences.push(...found);
      if (found.length > 0) break;
      // kube-proxy removes emptied nftables chains with the next sync that is a second later, and so do we: the
      // recordings hold those of the last step only.
      if (mode === "nftables") await Bun.sleep(1_100);
    }
  } finally {
    proxy.kill("SIGKILL");
    await proxy.exited;
    await api.stop();
  }
  const text = differences.length > 0 ? readFileSync(log, "utf8").slice(-3000) : "";
  rmSync(dir, { recursive: true });
  return { case: test.name, mode, differences, log: text };
}

function prepareHost({ host }: Case): void {
  run("ip", "link", "set", "lo", "up");
  for (const [key, value] of Object.entries({
    "net.ipv4.ip_forward": 1,
    "net.ipv6.conf.all.forwarding": 1,
    ...host.sysctls,
  }))
    run("sysctl", "-qw", `${key}=${value}`);
  for (const [i, [device, addresses]] of Object.entries(host.addrs).entries()) {
    run("ip", "link", "add", device, "type", "veth", "peer", "name", `${device}p`);
    run("ip", "link", "set", `${device}p`, "up");
    run("ip", "link", "set", device, "up");
    for (const address of addresses)
      run("ip", "addr", "add", address, "dev", device, ...(address.includes(":") ? ["nodad"] : []));
    if (i > 0) continue;
    run("ip", "route", "add", "default", "dev", device);
    if (addresses.some((a) => a.includes(":"))) run("ip", "-6", "route", "add", "default", "dev", device);
  }
  for (const command of host.commands ?? []) run("sh", "-c", command);
}

/** Waits until all is as recorded and stays so, or patience ends; returns what differs. */
async function settle(
  test: Case,
  mode: Mode,
  step: number,
  ports: readonly number[],
  applied: number,
  ended: () => boolean,
): Promise<readonly Difference[]> {
  const expected = new Map(recorded(test.name, mode, step));
  const answers = expected.get("http");
  if (answers !== undefined) expected.set("http", canonicalRecordedAnswers(answers));
  for (const what of kindsOf(mode)) if (!expected.has(what)) expected.set(what, "");
  const end = Date.now() + patience;
  let differences: readonly Difference[] = [];
  // In the guest every process costs a tenth of a second: ask the proxy first, and look once.
  const looks = mode === "ipvs" ? 1 : 2;
  if (mode === "ipvs") await untilSynced(applied, () => ended() || Date.now() > end);
  for (let equal = 0; equal < looks; ) {
    differences = [];
    for (const [what, text] of expected) {
      const actual = await readState(what, mode, text, ports);
      if (actual !== text) differences = [...differences, { step, what, expected: text, actual }];
    }
    equal = differences.length === 0 ? equal + 1 : 0;
    if (differences.length > 0 && (ended() || Date.now() > end)) return differences;
    await Bun.sleep(equal > 0 ? 250 : 100);
  }
  return [];
}

/** Until every family has synced after the moment, by the proxy's own metrics. */
async function untilSynced(after: number, giveUp: () => boolean): Promise<void> {
  while (!giveUp()) {
    try {
      const body = await (await fetch("http://127.0.0.1:10249/metrics", { signal: AbortSignal.timeout(5_000) })).text();
      const times = [...body.matchAll(/^kubeproxy_sync_proxy_rules_last_timestamp_seconds\{[^}]*\} (\S+)$/gm)];
      if (times.length > 0 && times.every((t) => Number(t[1]) * 1000 > after)) return;
    } catch {
      // Not up yet.
    }
    await Bun.sleep(100);
  }
}

function run(...argv: readonly string[]): void {
  const { exitCode, stderr } = Bun.spawnSync([...argv], { stdout: "ignore" });
  if (exitCode !== 0) throw new Error(`${argv.join(" ")}: ${stderr.toString().trim()}`);
}
