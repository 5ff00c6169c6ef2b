/**
 * Measures this proxy, and another kube-proxy binary on the same work in the same run:
 *   bun test/bench/run.ts [--mode iptables,nftables,nftables-compact] [--services 1000,5000,10000] [--large] [--runs 3] [--changes 10]
 *                         [--peer PATH] [--gate NAME] [--quick] [--json FILE]
 * Asserts nothing; prints medians, and ratios to the peer and to the tool alone.
 */
import { existsSync, writeFileSync } from "node:fs";
import { median } from "./process.ts";
import type { Figures, WorkerInput } from "./worker.ts";

interface Row {
  readonly mode: string;
  readonly services: number;
  readonly who: string;
  readonly figures: Figures;
}

const args = process.argv.slice(2);
const option = (name: string): string | undefined => {
  const i = args.indexOf(`--${name}`);
  return i < 0 ? undefined : args[i + 1];
};
const list = (name: string, fallback: string): readonly string[] => (option(name) ?? fallback).split(",");

const binary = process.env["KUBE_PROXY"] ?? `${import.meta.dir}/../../dist/kube-proxy`;
const peer = option("peer");
/** `nftables-compact`: ours with the gate for that layout; the peer runs plain nftables mode. */
type BenchMode = WorkerInput["mode"] | "nftables-compact";
const modes = list("mode", "iptables,nftables,nftables-compact") as readonly BenchMode[];
const sizes = list("services", args.includes("--large") ? "1000,5000,10000,40000" : "1000,5000,10000").map(Number);
const runs = Number(option("runs") ?? 3);

for (const path of [binary, ...(peer === undefined ? [] : [peer])]) {
  if (!existsSync(path)) {
    console.error(`bench: ${path} is not there${path === binary ? ": scripts/build makes it" : ""}`);
    process.exit(2);
  }
}

const rows: Row[] = [];
for (const mode of modes) for (const services of sizes) await compare(mode, services);
printTable();
const json = option("json");
if (json !== undefined)
  writeFileSync(json, `${JSON.stringify({ date: new Date().toISOString(), runs, rows }, undefined, 2)}\n`);

/** Ours and the peer alternate, so that a busy moment hits both. */
async function compare(mode: BenchMode, services: number): Promise<void> {
  const all = new Map<string, Figures[]>();
  const gate = mode === "nftables-compact" ? "KubeProxyNFTablesCompact" : option("gate");
  for (let run = 0; run < runs; run++) {
    for (const [who, path] of [["ours", binary], ...(peer === undefined ? [] : [["peer", peer]])] as const) {
      const figures = await measure({
        binary: path ?? "",
        mode: mode === "nftables-compact" ? "nftables" : mode,
        services,
        endpoints: 10,
        changes: Number(option("changes") ?? 10),
        all: !args.includes("--quick"),
        ...(who === "ours" && gate !== undefined ? { gates: gate } : {}),
      });
      all.set(who, [...(all.get(who) ?? []), figures]);
    }
  }
  for (const [who, list] of all) rows.push({ mode, services, who, figures: medians(list) });
  console.error(`measured ${mode} ${services}`);
}

async function measure(input: WorkerInput): Promise<Figures> {
  const argv = ["unshare", "-n", "-m", process.execPath, `${import.meta.dir}/worker.ts`, JSON.stringify(input)];
  const child = Bun.spawn(argv, { stdout: "pipe", stderr: "inherit" });
  const text = await child.stdout.text();
  await child.exited;
  if (text === "") return {};
  return JSON.parse(text);
}

function medians(list: readonly Figures[]): Figures {
  const names = new Set(list.flatMap((f) => Object.keys(f)));
  return Object.fromEntries([...names].map((n) => [n, median(list.flatMap((f) => f[n] ?? []))]));
}

function printTable(): void {
  const names = [...new Set(rows.flatMap((r) => Object.keys(r.figures)))];
  for (const mode of modes) {
    for (const services of sizes) {
      const ours = find(mode, services, "ours");
      const other = find(mode, services, "peer");
      if (ours === undefined) continue;
      console.log(`\n${mode}, ${services} Services x 10 endpoints (medians of ${runs})`);
      for (const name of names) {
        const value = ours[name];
        if (value === undefined) continue;
        const against = other?.[name];
        const ratio =
          against === undefined || against === 0
            ? ""
            : `  peer ${format(against)}  ratio ${(value / against).toFixed(3)}`;
        console.log(`  ${name.padEnd(24)} ${format(value).padStart(10)}${ratio}`);
      }
      const { first_sync_ms: first, raw_load_ms: raw } = ours;
      if (first !== undefined && raw !== undefined)
        console.log(`  first sync / tool alone  ${(first / raw).toFixed(2).padStart(10)}`);
    }
  }
}

function find(mode: string, services: number, who: string): Figures | undefined {
  return rows.find((r) => r.mode === mode && r.services === services && r.who === who)?.figures;
}

function format(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(1);
}
