/**
 * Runs the packet table with the real binary in a lab: `bun test/packets/run.ts --mode nftables [--family 4|6] [--compact]
 * [--row TEXT] [--table-only | --stories-only] [--inspect COMMAND]`. Prints counts and faults; exit code 1 when there is a fault.
 * --inspect runs a shell command in node-1 once the rows of a setting are programmed, for looking at rules.
 */
import { existsSync } from "node:fs";
import { parseArgs } from "node:util";
import type { FamilyName } from "../../src/model/family.ts";
import { Cluster, proxyBinary } from "../lab/cluster.ts";
import { Lab } from "../lab/lab.ts";
import { families } from "../lab/topology.ts";
import { judge, type Trial } from "./judge.ts";
import { placeServices, serviceObjects } from "./objects.ts";
import { modes, type Row, type Setting } from "./row.ts";
import { configuration } from "./settings.ts";
import { runStories } from "./stories.ts";
import { casesOf, table } from "./table.ts";
import { addTo, type RunRequest, type Tallies, type Tally } from "./tally.ts";

/** Runs the table and the stories of one mode in a fresh lab; `tally` by family. */
export async function runMode(request: RunRequest): Promise<ReadonlyMap<FamilyName, Tally>> {
  if (!existsSync(proxyBinary)) {
    throw new Error(`${proxyBinary} does not exist: run scripts/build first`);
  }
  const slow = request.mode === "ipvs";
  const lab = new Lab();
  const cluster = new Cluster(lab, slow ? 60_000 : 20_000);
  const abort = (): void => {
    lab.end();
    process.exit(130);
  };
  process.once("SIGINT", abort);
  process.once("SIGTERM", abort);
  try {
    lab.build();
    await cluster.startApi();
    return await runParts(request, cluster, slow ? 10_000 : 4_000);
  } finally {
    process.off("SIGINT", abort);
    process.off("SIGTERM", abort);
    await cluster.end();
    lab.end();
  }
}

async function runParts(request: RunRequest, cluster: Cluster, patience: number): Promise<Tallies> {
  const tallies: Tallies = new Map(
    request.families.map((f) => [f, { packets: 0, connections: 0, stories: 0, faults: [] }]),
  );
  const rows = table.filter((row) => row.name.includes(request.only) && (row.modes?.includes(request.mode) ?? true));
  const settings = request.parts.includes("table") ? [...new Set(rows.map((row) => row.setting))] : [];
  let first = 1;
  for (const setting of settings) {
    const some = rows.filter((row) => row.setting === setting);
    await startProxy(request, cluster, setting);
    await runRows(request, cluster, some, first, patience, tallies);
    await cluster.stopProxy();
    first += some.reduce((sum, row) => sum + row.services.length, 0);
  }
  if (request.parts.includes("stories")) {
    await startProxy(request, cluster, "plain");
    await runStories(request, cluster, first, patience, tallies, (otherLayout) =>
      startProxy({ ...request, compact: request.compact !== otherLayout }, cluster, "plain"),
    );
    await cluster.stopProxy();
  }
  return tallies;
}

async function startProxy(request: RunRequest, cluster: Cluster, setting: Setting): Promise<void> {
  const { mode, compact } = request;
  const variant = mode === "ipvs" ? undefined : mode === "iptables-legacy" ? "legacy" : "nft";
  const started = performance.now();
  await cluster.startProxy(configuration(setting, { mode, compact, kubeconfig: cluster.kubeconfig }), variant);
  request.log(`${mode}: ${setting}: proxy ready after ${(performance.now() - started).toFixed(0)} ms`);
}

async function runRows(
  request: RunRequest,
  cluster: Cluster,
  rows: readonly Row[],
  first: number,
  patience: number,
  tallies: Tallies,
): Promise<void> {
  const placed = placeServices(rows, first);
  const objects = [...placed.values()].flatMap((services) => [...services.values()].flatMap(serviceObjects));
  await cluster.apply(objects);
  await cluster.settle();
  if (request.inspect !== "") {
    request.log(cluster.lab.run("node1", ["sh", "-c", request.inspect]));
  }
  for (const family of request.families) {
    const trials = casesOf(rows, request.mode, family).flatMap((one): Trial[] => {
      const service = placed.get(one.row)?.get(one.packet.to);
      if (service === undefined) {
        throw new Error(`row "${one.row.name}" has no Service "${one.packet.to}"`);
      }
      return [{ ...one, family, placed: service }];
    });
    const verdict = await judge(cluster.lab, trials, patience, request.mode === "ipvs" ? "turns" : "chance");
    addTo(tallies, family, verdict);
  }
  await cluster.remove(objects);
}

/** One line a family, then one a fault. */
export function report(request: RunRequest, tallies: ReadonlyMap<FamilyName, Tally>): string[] {
  const name = `packets ${request.mode}${request.compact ? "-compact" : ""}`;
  return [...tallies].flatMap(([family, { packets, connections, stories, faults }]) => [
    `${name} ${family.toLowerCase()}: ${packets} packets and ${stories} stories, ${connections} connections, ${faults.length} faults`,
    ...faults.map((fault) => `  FAULT ${request.mode} ${fault}`),
  ]);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      mode: { type: "string", default: "nftables" },
      family: { type: "string" },
      layout: { type: "string", default: "" },
      compact: { type: "boolean", default: false },
      row: { type: "string", default: "" },
      "table-only": { type: "boolean", default: false },
      "stories-only": { type: "boolean", default: false },
      quiet: { type: "boolean", default: false },
      inspect: { type: "string", default: "" },
    },
  });
  const mode = modes.find((known) => known === values.mode);
  if (mode === undefined) {
    console.error(`--mode ${values.mode}: not one of ${modes.join(", ")}`);
    process.exit(2);
  }
  const request: RunRequest = {
    mode,
    families: families.filter((family) => values.family === undefined || family === `IPv${values.family}`),
    compact: values.compact || values.layout === "compact",
    only: values.row,
    parts: values["table-only"] ? ["table"] : values["stories-only"] ? ["stories"] : ["table", "stories"],
    inspect: values.inspect,
    log: (line) => {
      if (!values.quiet) console.log(line);
    },
  };
  const tallies = await runMode(request);
  for (const line of report(request, tallies)) {
    console.log(line);
  }
  process.exit([...tallies.values()].some(({ faults }) => faults.length > 0) ? 1 : 0);
}
