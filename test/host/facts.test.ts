import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { hostFacts, onlineCpus, parseCpuList, parseIptablesVersion, parseKernelRelease } from "../../src/host/facts.ts";
import { missing, type Namespace, namespace } from "./namespace.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

test.each([
  ["0", 1],
  ["0-1\n", 2],
  ["0-3,8,10-11", 7],
  ["", 0],
  ["nonsense", 0],
])("CPUs in %p: %d", (text, count) => {
  expect(parseCpuList(text)).toBe(count);
});

test("CPUs come from the kernel's list, or from the runtime where there is none", () => {
  const dir = temporaryDir();
  writeFileSync(`${dir}/online`, "0-63\n");
  expect(onlineCpus(`${dir}/online`)).toBe(64);
  expect(onlineCpus(`${dir}/none`)).toBe(navigator.hardwareConcurrency);
});

test.each([
  ["iptables v1.8.9 (nf_tables)\n", { variant: "nft", version: [1, 8, 9] }],
  ["iptables v1.8.7 (legacy)\n", { variant: "legacy", version: [1, 8, 7] }],
  ["iptables v1.4.21\n", { variant: "legacy", version: [1, 4, 21] }],
  ["nonsense", undefined],
] as const)("%p", (text, wanted) => {
  expect(parseIptablesVersion(text)).toEqual(wanted as ReturnType<typeof parseIptablesVersion>);
});

test.each([
  ["6.1.0-18-amd64", [6, 1]],
  ["5.15.90.1-microsoft-standard-WSL2", [5, 15]],
  ["odd", [0, 0]],
] as const)("kernel %p", (text, wanted) => {
  expect(parseKernelRelease(text)).toEqual([...wanted]);
});

describe("hostFacts", () => {
  const facts = (version: string | undefined, more: { kernelRelease?: string; liberal?: string } = {}) => {
    const sysctlRoot = temporaryDir();
    mkdirSync(`${sysctlRoot}/net/netfilter`, { recursive: true });
    if (more.liberal !== undefined)
      writeFileSync(`${sysctlRoot}/net/netfilter/nf_conntrack_tcp_be_liberal`, more.liberal);
    const toolDirs = [scripts(version === undefined ? {} : { iptables: `echo '${version}'` })];
    return hostFacts({ wantNfacct: false, toolDirs, sysctlRoot, kernelRelease: more.kernelRelease ?? "6.1.0" });
  };

  test("of a modern host", async () => {
    expect(await facts("iptables v1.8.9 (nf_tables)", { liberal: "1\n" })).toEqual({
      iptables: "nft",
      randomFully: true,
      nfacct: false,
      tcpBeLiberal: true,
      kernel: [6, 1],
    });
  });

  test("old iptables or an old kernel: no --random-fully", async () => {
    expect((await facts("iptables v1.6.1")).randomFully).toBe(false);
    expect((await facts("iptables v1.6.2")).randomFully).toBe(true);
    expect((await facts("iptables v1.8.9 (legacy)", { kernelRelease: "3.10.0-1160.el7" })).randomFully).toBe(false);
  });

  test("no iptables", async () => {
    expect(await facts(undefined)).toMatchObject({ iptables: "none", randomFully: true, tcpBeLiberal: false });
  });
});

const reason = missing("nfacct", "iptables-restore");
if (reason !== undefined) console.warn(`nfacct kernel tests skipped: ${reason}`);

describe.skipIf(reason !== undefined)("nfacct, in a kernel", () => {
  let ns: Namespace;
  beforeAll(async () => {
    ns = await namespace();
  });
  afterAll(() => ns.remove());

  test("is found out twice in a row and leaves no chain", async () => {
    const find = () => hostFacts({ wantNfacct: true, toolDirs: [ns.toolDir] });
    const direct = await ns.run(["sh", "-c", "nfacct add kp_direct && echo works || echo fails"]);
    expect((await find()).nfacct).toBe(direct === "works\n");
    expect((await find()).nfacct).toBe(direct === "works\n");
    expect(await ns.run(["iptables-save", "-t", "filter"])).not.toContain("PROBE");
  });

  test("a host without the tool has none", async () => {
    const dir = scripts({ iptables: "echo 'iptables v1.8.9 (nf_tables)'", "iptables-restore": "exit 2" });
    expect((await hostFacts({ wantNfacct: true, toolDirs: [dir] })).nfacct).toBe(false);
  });
});
