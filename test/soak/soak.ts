/** Churn for a long time under a real proxy: its resident memory and open files are read again and again. */
import { readdirSync, readFileSync } from "node:fs";
import { Random } from "../model/random.ts";
import { healthy, newApi, type ProxyRun, resetHost, startProxy, until } from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";

export interface SoakOptions {
  readonly mode: "nftables" | "iptables";
  readonly seconds: number;
  readonly services: number;
  /** Seconds between samples. */
  readonly every: number;
  readonly seed: number;
  readonly onSample: (sample: Sample) => void;
}

export interface Sample {
  readonly atSeconds: number;
  /** Megabytes. */
  readonly resident: number;
  readonly files: number;
  /** Changes made until now. */
  readonly changes: number;
}

export interface Soaked {
  readonly samples: readonly Sample[];
  readonly log: string;
}

/** Some 50 changes a second. */
export async function soak(options: SoakOptions): Promise<Soaked> {
  const { mode, seconds, services, every, seed, onSample } = options;
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  const ip = (i: number): string => `10.96.${i >> 8}.${1 + (i & 127)}`;
  for (let i = 0; i < services; i++)
    api.apply([service(`s${i}`, { clusterIP: ip(i) }), slice(`s${i}`, ["10.244.2.1"])]);
  const run = startProxy(api, { mode, config: { [mode]: { minSyncPeriod: "100ms", syncPeriod: "5s" } } });
  await until(healthy, () => run.log(), 60_000);
  const random = new Random(seed);
  const samples: Sample[] = [];
  const start = performance.now();
  let changes = 0;
  const passed = (): number => (performance.now() - start) / 1000;
  while (passed() < seconds) {
    for (let n = 0; n < 5; n++, changes++) {
      const i = random.below(services);
      if (random.chance(20)) api.remove("Service", "ns", `s${i}`);
      else if (random.chance(30))
        api.apply(service(`s${i}`, { clusterIP: ip(i), sessionAffinity: random.pick(["None", "ClientIP"]) }));
      else
        api.apply(
          slice(
            `s${i}`,
            Array.from({ length: random.below(4) }, () => `10.244.3.${random.below(250)}`),
          ),
        );
    }
    // Long streams are cut and found again, as in real life.
    if (random.below(200) === 0) api.liveFault(random.pick(["reset", "gone", "end"]));
    await Bun.sleep(100);
    if (passed() < (samples.length + 1) * every) continue;
    const sample = { atSeconds: Math.round(passed()), changes, ...sizeOf(run) };
    samples.push(sample);
    onSample(sample);
  }
  const log = run.log();
  await run.stop();
  await api.stop();
  return { samples, log };
}

/** Largest of the second half against largest of the first, for each figure. */
export function halves(samples: readonly Sample[]): Readonly<Record<"resident" | "files", readonly [number, number]>> {
  const middle = Math.ceil(samples.length / 2);
  const of = (key: "resident" | "files"): readonly [number, number] => [
    Math.max(...samples.slice(0, middle).map((s) => s[key])),
    Math.max(...samples.slice(middle).map((s) => s[key])),
  ];
  return { resident: of("resident"), files: of("files") };
}

// --- internal ---

function sizeOf(run: ProxyRun): { readonly resident: number; readonly files: number } {
  const { pid } = run.process;
  const kilobytes = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return { resident: Math.round(kilobytes / 1024), files: readdirSync(`/proc/${pid}/fd`).length };
}
