import { describe, expect, test } from "bun:test";
import { ipvs, probe } from "../../../src/backends/ipvs/index.ts";
import type { StepResult } from "../../../src/model/step.ts";
import { contextOf } from "./cluster.ts";

const fine: StepResult = { exitCode: 0, stdout: "", stderr: "" };

function failed(exitCode: number, stderr: string): StepResult {
  return { exitCode, stdout: "", stderr };
}

/** What the probe says when its five steps end like this. */
function said(results: readonly StepResult[], over = {}): readonly string[] {
  const { errors, warnings } = probe(contextOf(over)).parse(results);
  return [...errors, ...warnings];
}

describe("probe", () => {
  test("everything there: nothing to say, and every step runs in a throw-away namespace", () => {
    const { steps } = probe(contextOf());
    const changing = steps.filter((s) => s.kind !== "exec" || s.tool !== "grep");
    expect(changing.map((s) => (s.kind === "exec" ? [s.tool, s.args[0]] : []))).toEqual(
      changing.map(() => ["unshare", "-n"]),
    );
    expect(said([fine, fine, fine, fine, fine])).toEqual([]);
  });

  test("no ip_vs in the kernel", () => {
    // As told by ipvsadm 1.31 on a kernel without it.
    const stderr = `modprobe: FATAL: Module ip_vs not found in directory /lib/modules/6.18.44
Can't initialize ipvs: Protocol not available
Are you sure that IP Virtual Server is built in the kernel or as module?
`;
    expect(said([failed(2, stderr), fine, fine, fine, fine])).toEqual([
      "the kernel module ip_vs (CONFIG_IP_VS) does not work here (ipvsadm said: Can't initialize ipvs: Protocol not available); load it, or use mode nftables",
    ]);
  });

  test("an unknown scheduler is named with its module", () => {
    const result = failed(255, "Scheduler or persistence engine not found\n");
    const [error = "", ...rest] = said([result, fine, fine, fine, fine], { scheduler: "nosuch" });
    expect(error).toStartWith('ipvs.scheduler: this kernel has no scheduler "nosuch"; load the module ip_vs_nosuch');
    expect(rest).toEqual([]);
  });

  test("what is no scheduler's name reaches no tool", () => {
    const reading = probe(contextOf({ scheduler: "rr -t 1.2.3.4:80" }));
    expect(reading.steps).toEqual([]);
    expect(reading.parse([]).errors[0]).toStartWith('ipvs.scheduler: "rr -t 1.2.3.4:80" is no scheduler\'s name');
  });

  test("missing tools name their package", () => {
    const missing = (tool: string) => failed(127, `unshare: failed to execute ${tool}: No such file or directory\n`);
    expect(said([missing("ipvsadm"), missing("ipset"), missing("ip"), fine, fine])).toEqual([
      "the tool ipvsadm is not installed; install the package ipvsadm",
      "the tool ipset is not installed; install the package ipset",
      "the tool ip is not installed; install the package iproute2",
    ]);
  });

  test("no dummy device", () => {
    const [error] = said([fine, fine, failed(2, "Error: Unknown device type.\n"), fine, fine]);
    expect(error).toBe(
      "the kernel module dummy (CONFIG_DUMMY) does not work here (iproute2 said: Error: Unknown device type.); load it, or use mode nftables",
    );
  });

  test("no right to try is one line, and no reason to stop", () => {
    const denied = failed(1, "unshare: unshare failed: Operation not permitted\n");
    const errors = said([denied, denied, denied, denied, fine]);
    expect(errors.length).toBe(1);
    expect(errors[0]).toContain("CAP_SYS_ADMIN");
  });

  test("ARP settings left from strictARP are told of", () => {
    const stdout = "/proc/sys/net/ipv4/conf/all/arp_ignore:1\n/proc/sys/net/ipv4/conf/all/arp_announce:2\n";
    const [warning] = said([fine, fine, fine, fine, { ...fine, stdout }]);
    expect(warning).toContain("net.ipv4.conf.all.arp_ignore = 1 and net.ipv4.conf.all.arp_announce = 2");
    expect(said([fine, fine, fine, fine, { ...fine, stdout }], { strictARP: true })).toEqual([]);
  });
});

describe("setup", () => {
  const names = (over = {}, kernel: readonly [number, number] = [6, 1]): readonly string[] =>
    ipvs
      .setup({ ...contextOf(over), facts: { ...contextOf().facts, kernel } })
      .flatMap((s) => (s.kind === "sysctl" ? [`${s.name}=${s.value}`] : []));

  test("conn_reuse_mode only on kernels that need it", () => {
    const has = (major: number, minor: number): boolean =>
      names({}, [major, minor]).includes("net/ipv4/vs/conn_reuse_mode=0");
    expect([has(4, 0), has(4, 1), has(4, 18), has(5, 8), has(5, 9), has(6, 1)]).toEqual([
      false,
      true,
      true,
      true,
      false,
      false,
    ]);
  });

  test("ARP only with strictARP", () => {
    expect(names().filter((n) => n.includes("arp"))).toEqual([]);
    expect(names({ strictARP: true }).filter((n) => n.includes("arp"))).toEqual([
      "net/ipv4/conf/all/arp_ignore=1",
      "net/ipv4/conf/all/arp_announce=2",
    ]);
  });

  test("timeouts in one ipvsadm --set, none when all are 0", () => {
    const sets = (over: object): unknown =>
      ipvs.setup(contextOf(over)).flatMap((s) => (s.kind === "exec" && s.tool === "ipvsadm" ? [s.args] : []));
    expect(sets({})).toEqual([]);
    expect(sets({ tcpTimeout: 900, udpTimeout: 300 })).toEqual([["--set", "900", "0", "300"]]);
  });
});
