/** scripts/install in a namespace with its own copy of /etc: in, again over a running one, out; and what the unit says. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { binary, Space } from "../cleanup/space.ts";

setDefaultTimeout(60_000);

const script = resolve(import.meta.dir, "../../scripts/install");
const unit = "/etc/systemd/system/kube-proxy.service";

let shared: Space | undefined;
afterAll(() => shared?.close());

/** /etc is a copy and /usr/local is empty, so that nothing of the machine is touched; one for all tests, emptied for each. */
async function machine(): Promise<Space> {
  if (shared === undefined) {
    shared = await Space.open();
    const etc = `${shared.dir}/etc`;
    shared.must(["sh", "-ec", `cp -a /etc ${etc}; mount --bind ${etc} /etc; mount -t tmpfs tmpfs /usr/local`]);
  }
  shared.must(["rm", "-rf", "/usr/local/bin/kube-proxy", unit, "/etc/kube-proxy"]);
  return shared;
}

const install = (space: Space, ...args: readonly string[]) => space.run([script, "--binary", binary, ...args]);

describe("scripts/install", () => {
  test("binary, unit and a configuration to fill in; systemd finds nothing wrong with the unit", async () => {
    const space = await machine();
    const done = install(space);
    expect(done).toMatchObject({ code: 0, err: "" });
    expect(done.out).toBe(`installed /usr/local/bin/kube-proxy, ${unit}, /etc/kube-proxy/config.yaml\n`);
    expect(space.must(["/usr/local/bin/kube-proxy", "--version"])).toStartWith("Kubernetes v1.37.");
    expect(space.run(["systemd-analyze", "verify", "--man=no", unit])).toEqual({ code: 0, out: "", err: "" });
    expect(space.must(["stat", "-c", "%a %U", "/usr/local/bin/kube-proxy", unit])).toBe("755 root\n644 root\n");
    expect(space.must(["cat", unit])).not.toMatch(/@[A-Z]+@/);
  });

  test("the unit is fenced in: systemd's own score of exposure is below 3 of 10", async () => {
    const space = await machine();
    install(space);
    const score = space.run(["systemd-analyze", "security", "--offline=true", "--threshold=30", unit]);
    expect(score.code).toBe(0);
    const text = space.must(["cat", unit]);
    for (const line of [
      "Type=notify",
      "WatchdogSec=5min",
      "Restart=always",
      "ProtectSystem=strict",
      "NoNewPrivileges=yes",
    ])
      expect(text.split("\n")).toContain(line);
    for (const name of [
      "BUN_OPTIONS",
      "BUN_BE_BUN",
      "BUN_INSPECT",
      "NODE_OPTIONS",
      "NODE_TLS_REJECT_UNAUTHORIZED",
      "LD_PRELOAD",
    ])
      expect(text).toMatch(new RegExp(`^UnsetEnvironment=.*\\b${name}\\b`, "m"));
  });

  test("again over a running one: the file is replaced, not written into; a configuration of the user stays", async () => {
    const space = await machine();
    install(space);
    const mine = `${readConfig(space)}# mine\n`;
    space.must(["sh", "-c", "cat >/etc/kube-proxy/config.yaml"], mine);
    const before = space.must(["stat", "-c", "%i", "/usr/local/bin/kube-proxy"]);
    // A running program's file cannot be written to (ETXTBSY).
    const args = ["--manifests", "/dev/null", "--hostname-override", "n", "--proxy-mode", "nftables"];
    const child = space.start(["/usr/local/bin/kube-proxy", ...args], `${space.dir}/log`);
    expect(install(space)).toMatchObject({ code: 0, err: "" });
    expect(space.must(["stat", "-c", "%i", "/usr/local/bin/kube-proxy"])).not.toBe(before);
    expect(readConfig(space)).toBe(mine);
    child.kill("SIGKILL");
  });

  test("--config is copied; one with faults is refused with field and line", async () => {
    const space = await machine();
    const good = `${space.dir}/good.yaml`;
    writeFileSync(good, "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n");
    expect(install(space, "--config", good).code).toBe(0);
    expect(readConfig(space)).toBe(readFileSync(good, "utf8"));
    const bad = `${space.dir}/bad.yaml`;
    writeFileSync(bad, "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptable\n");
    const refused = install(space, "--config", bad);
    expect(refused.code).toBe(1);
    expect(refused.err).toContain("mode");
    expect(refused.err).toContain(":3:");
  });

  test("--uninstall takes binary and unit away, keeps the configuration, twice without complaint", async () => {
    const space = await machine();
    install(space);
    for (let i = 0; i < 2; i++) {
      expect(space.run([script, "--uninstall"])).toMatchObject({ code: 0, err: "" });
      expect(space.run(["ls", "/usr/local/bin/kube-proxy", unit]).code).not.toBe(0);
      expect(readConfig(space)).toContain("KubeProxyConfiguration");
    }
  });

  test("--uninstall --cleanup takes the rules too", async () => {
    const space = await machine();
    install(space);
    space.must(["nft", "add", "table", "ip", "kube-proxy"]);
    expect(space.run([script, "--uninstall", "--cleanup"])).toMatchObject({ code: 0, err: "" });
    expect(space.must(["nft", "list", "tables"])).toBe("");
  });

  test("--root and --prefix write below a folder only", async () => {
    const space = await machine();
    const root = `${space.dir}/root`;
    expect(install(space, "--root", root, "--prefix", "/opt/kp").code).toBe(0);
    expect(statSync(`${root}/opt/kp/bin/kube-proxy`).mode & 0o777).toBe(0o755);
    expect(readFileSync(`${root}${unit}`, "utf8")).toContain(
      "ExecStart=/opt/kp/bin/kube-proxy --config=/etc/kube-proxy/config.yaml",
    );
    expect(space.run([script, "--uninstall", "--root", root, "--prefix", "/opt/kp"]).code).toBe(0);
    expect(existsSync(`${root}/opt/kp/bin/kube-proxy`)).toBe(false);
    expect(existsSync(`${root}${unit}`)).toBe(false);
  });

  test("mistakes are one line each", async () => {
    const space = await machine();
    const other = `${space.dir}/other`;
    writeFileSync(other, "#!/bin/sh\necho hello\n");
    chmodSync(other, 0o755);
    for (const [args, message] of [
      [["--binary", "/nonexistent"], "/nonexistent does not exist: run scripts/build, or give --binary FILE"],
      [["--binary", other], "is no kube-proxy: --version says hello"],
      [["--binary", "/etc/passwd"], "/etc/passwd does not run here"],
      [["--binray", other], "unknown argument --binray"],
      [["--prefix", "opt"], "--prefix must be an absolute path, not opt"],
    ] as const) {
      const { code, err } = space.run([script, ...args]);
      expect(code).toBe(1);
      expect(err).toStartWith("scripts/install: ");
      expect(err).toContain(message);
      expect(err.trim().split("\n").length).toBe(1);
    }
    expect(space.run(["ls", unit]).code).not.toBe(0);
  });
});

function readConfig(space: Space): string {
  return space.must(["cat", "/etc/kube-proxy/config.yaml"]);
}
