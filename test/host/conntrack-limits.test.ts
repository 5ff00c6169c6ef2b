import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { ConntrackSettings } from "../../src/conntrack/limits.ts";
import { CommandError } from "../../src/host/command-error.ts";
import { applyConntrackSettings, type LimitsOptions } from "../../src/host/conntrack-limits.ts";
import { recordingLog } from "./log.ts";
import { missing } from "./namespace.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

const asked: ConntrackSettings = {
  maxPerCore: 32_768,
  min: 131_072,
  tcpEstablishedTimeout: 86_400,
  tcpCloseWaitTimeout: 3600,
  udpTimeout: 0,
  udpStreamTimeout: 0,
  tcpBeLiberal: false,
};

/** A /proc/sys and /sys of files. Without `values` nf_conntrack is not loaded; `loads` says that nft loads it. */
function machine(values: Readonly<Record<string, number>> | undefined, loads = false, hashsize = 1024) {
  const root = temporaryDir();
  const [sysctlRoot, sysRoot] = [`${root}/proc`, `${root}/sys`];
  const parameters = `${sysRoot}/module/nf_conntrack/parameters`;
  const netfilter = `${sysctlRoot}/net/netfilter`;
  mkdirSync(parameters, { recursive: true });
  mkdirSync(netfilter, { recursive: true });
  writeFileSync(`${parameters}/hashsize`, `${hashsize}\n`);
  for (const [name, value] of Object.entries(values ?? {}))
    writeFileSync(`${netfilter}/nf_conntrack_${name}`, `${value}\n`);
  const files = ["max", "tcp_timeout_established", "tcp_timeout_close_wait"];
  const load = files.map((name) => `echo 100 > ${netfilter}/nf_conntrack_${name}`).join("; ");
  const toolDir = scripts(loads ? { nft: `cat >${root}/script; ${load}` } : {});
  const log = recordingLog();
  const options: LimitsOptions = { log, sysctlRoot, sysRoot, cpus: 2, toolDirs: [toolDir] };
  const read = (name: string) => Number(readFileSync(`${netfilter}/nf_conntrack_${name}`, "utf8"));
  const buckets = () => Number(readFileSync(`${parameters}/hashsize`, "utf8"));
  return { root, log, options, read, buckets };
}

describe("on files", () => {
  test("raises what is below, writes timeouts that differ, grows the hash table", async () => {
    const host = machine({ max: 65_536, tcp_timeout_established: 432_000, tcp_timeout_close_wait: 60 });
    expect(await applyConntrackSettings(asked, host.options)).toEqual([]);
    expect([host.read("max"), host.read("tcp_timeout_established"), host.read("tcp_timeout_close_wait")]).toEqual([
      131_072, 86_400, 3600,
    ]);
    expect(host.buckets()).toBe(32_768);
    expect(host.log.lines).toContain("info Conntrack setting changed name=nf_conntrack_max from=65536 to=131072");
  });

  test("never lowers the table or its hash", async () => {
    const host = machine(
      { max: 1_048_576, tcp_timeout_established: 86_400, tcp_timeout_close_wait: 3600 },
      false,
      262_144,
    );
    expect(await applyConntrackSettings(asked, host.options)).toEqual([]);
    expect([host.read("max"), host.buckets()]).toEqual([1_048_576, 262_144]);
    expect(host.log.lines).toEqual([]);
  });

  test("maxPerCore 0 and nothing else asked for: nothing is read or written, no tool is run", async () => {
    const host = machine(undefined);
    const nothing = { ...asked, maxPerCore: 0, tcpEstablishedTimeout: 0, tcpCloseWaitTimeout: 0 };
    expect(
      await applyConntrackSettings(nothing, { ...host.options, sysctlRoot: "/nowhere", sysRoot: "/nowhere" }),
    ).toEqual([]);
    expect(host.log.lines).toEqual([]);
  });

  test("a module that is not loaded is loaded by a rule that leaves nothing", async () => {
    const host = machine(undefined, true);
    expect(await applyConntrackSettings(asked, host.options)).toEqual([]);
    expect([host.read("max"), host.read("tcp_timeout_close_wait")]).toEqual([131_072, 3600]);
    const script = readFileSync(`${host.root}/script`, "utf8").trim().split("\n");
    expect(script[0]).toStartWith("add table ip kube-proxy-probe");
    expect(script.at(-1)).toBe("delete table ip kube-proxy-probe");
  });

  test("a module that cannot be loaded is a warning naming the files", async () => {
    const host = machine(undefined);
    const warnings = await applyConntrackSettings(asked, host.options);
    expect(warnings[0]).toBe(
      `${host.options.sysctlRoot}/net/netfilter/nf_conntrack_max does not exist: nf_conntrack is not loaded and could not be; 131072 not set`,
    );
    expect(host.log.lines.filter((line) => line.startsWith("warn"))).toHaveLength(warnings.length);
  });
});

const reason = missing("nft", "unshare", "mount");
if (reason !== undefined) console.warn(`conntrack settings kernel tests skipped: ${reason}`);

/** Runs the settings in a network and mount namespace of its own, after a shell command; `{ warnings }` or `{ error }`. */
async function inside(
  settings: ConntrackSettings,
  first = "true",
): Promise<{ warnings?: string[]; error?: string; lines: string[] }> {
  const here = `${import.meta.dir}/../../src/host`;
  const program = `
    import { applyConntrackSettings } from "${here}/conntrack-limits.ts";
    import { recordingLog } from "${import.meta.dir}/log.ts";
    const log = recordingLog();
    try {
      const warnings = await applyConntrackSettings(${JSON.stringify(settings)}, { log, cpus: 2 });
      console.log(JSON.stringify({ warnings, lines: log.lines }));
    } catch (error) {
      console.log(JSON.stringify({ error: error.name + ": " + error.message, lines: log.lines }));
    }`;
  const args = ["unshare", "-n", "-m", "sh", "-c", `${first} && exec "$@"`, "sh", process.execPath, "-e", program];
  const child = Bun.spawn(args, { stdout: "pipe" });
  return JSON.parse(await new Response(child.stdout).text());
}

describe.skipIf(reason !== undefined)("in a child network namespace, where nf_conntrack_max is read-only", () => {
  const current = reason === undefined ? Number(readFileSync("/proc/sys/net/netfilter/nf_conntrack_max", "utf8")) : 0;
  const size = (max: number): ConntrackSettings => ({ ...asked, maxPerCore: 1, min: max });

  test("already enough: nothing is written, nothing is wrong", async () => {
    const result = await inside(size(Math.min(current, 1024)));
    expect(result.error).toBeUndefined();
    expect(result.lines.filter((line) => line.includes("nf_conntrack_max"))).toEqual([]);
  });

  test("more wanted: one error naming file, values and both ways out", async () => {
    const result = await inside(size(current + 1));
    expect(result.error).toBe(
      `CommandError: conntrack sysctls cannot be set: /proc/sys/net/netfilter/nf_conntrack_max is ${current}, wanted ${current + 1}, ` +
        "and cannot be written (it is read-only here, EACCES): " +
        `set it on the host (sysctl -w net.netfilter.nf_conntrack_max=${current + 1}), or set conntrack.maxPerCore: 0 to stop asking for it`,
    );
  });

  test("the timeouts are the namespace's own and are set", async () => {
    const result = await inside({ ...size(1), udpTimeout: 77 });
    expect(result.error).toBeUndefined();
    expect(result.lines.some((line) => line.includes("name=nf_conntrack_udp_timeout") && line.endsWith("to=77"))).toBe(
      true,
    );
  });

  test("a read-only /proc/sys with less than wanted everywhere names every value", async () => {
    const result = await inside(
      { ...size(1), udpTimeout: 3_000_000, tcpBeLiberal: true },
      "mount -o bind,ro /proc/sys /proc/sys",
    );
    expect(result.error).toContain("nf_conntrack_udp_timeout is ");
    expect(result.error).toContain("(it is read-only here, EROFS)");
    expect(result.error).toContain("or set conntrack.udpTimeout: 0s to stop asking for it");
    expect(result.error).toContain("or set conntrack.tcpBeLiberal: false to stop asking for it");
  });

  test("the files hidden: warned, not fatal", async () => {
    const result = await inside(size(current + 1), "mount -t tmpfs none /proc/sys/net/netfilter");
    expect(result.error).toBeUndefined();
    expect(result.warnings?.[0]).toContain("nf_conntrack_max does not exist");
  });

  test("a read-only /sys does not matter", async () => {
    const result = await inside(size(1), "mount -o bind,ro /sys /sys");
    expect(result.error).toBeUndefined();
  });
});

test("the error is one line", () => {
  const facts = {
    argv: ["conntrack sysctls"],
    about: "",
    trouble: "sysctl",
    detail: "cannot be set: x",
    stderr: "",
    inputLines: [],
  } as const;
  expect(new CommandError(facts).message).toBe("conntrack sysctls cannot be set: x");
});
