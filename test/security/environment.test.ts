/** The built binary runs as root: nothing in its environment or working directory makes it something else. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { disarm, disarmed } from "../../scripts/harden-runtime.ts";
import { binary } from "../cleanup/space.ts";

setDefaultTimeout(60_000);

const dir = mkdtempSync("/tmp/kp-security-");
const marker = `${dir}/marker`;
const script = `${dir}/evil.js`;
const module = `${dir}/evil.cjs`;

beforeAll(() => {
  for (const file of [script, module])
    writeFileSync(file, `require("node:fs").writeFileSync(${JSON.stringify(marker)}, "x")`);
});
afterAll(() => rmSync(dir, { recursive: true }));

function run(args: readonly string[], env: Readonly<Record<string, string>>, cwd = "/") {
  const done = Bun.spawnSync([binary, ...args], { env, cwd, stdin: "ignore", timeout: 20_000 });
  return { code: done.exitCode, out: done.stdout.toString(), err: done.stderr.toString() };
}

const plain = run(["--version"], {});

/** It prints its version as always, ran no file of ours and wrote none. */
function expectUnchanged(env: Readonly<Record<string, string>>, cwd?: string): void {
  expect(run(["--version"], env, cwd)).toEqual(plain);
  expect(existsSync(marker)).toBe(false);
}

test("without anything it prints its version", () => {
  expect(plain).toMatchObject({ code: 0, err: "" });
  expect(plain.out).toStartWith("Kubernetes v1.37.");
});

test("the scripts used here would leave their mark", () => {
  expect(Bun.spawnSync([process.execPath, "--preload", script, "-e", "0"]).exitCode).toBe(0);
  expect(existsSync(marker)).toBe(true);
  rmSync(marker);
});

describe("variables of the runtime", () => {
  test.each([
    ["BUN_OPTIONS", `--preload=${script}`],
    ["BUN_OPTIONS", `--preload ${script}`],
    ["BUN_OPTIONS", `--cpu-prof --cpu-prof-dir=${dir} --cpu-prof-name=marker`],
    ["BUN_OPTIONS", "--print 1"],
    ["BUN_INSPECT", "ws://127.0.0.1:9229/x"],
    ["BUN_INSPECT", "ws://127.0.0.1:9229/x?wait=1"],
    ["BUN_INSPECT_CONNECT_TO", "ws://127.0.0.1:9/"],
    ["BUN_INSPECT_PRELOAD", script],
    ["BUN_BE_BUN", "1"],
    ["BUN_CONFIG_VERBOSE_FETCH", "curl"],
    ["BUN_BYTECODE_ORDER_OUT", marker],
    ["BUN_BYTECODE_ORDER_NAMES_OUT", marker],
    ["BUN_BYTECODE_DIGEST_OUT", marker],
    ["BUN_TRACE", marker],
    ["BUN_WATCHER_TRACE", marker],
    ["NODE_CHANNEL_FD", "0"],
    ["NODE_OPTIONS", `--require=${module}`],
    ["NODE_OPTIONS", "--inspect"],
    ["NODE_REDIRECT_WARNINGS", marker],
    ["NODE_PATH", dir],
    ["NODE_COMPILE_CACHE", marker],
    ["DEBUG", "*"],
    ["BUN_DEBUG", marker],
  ])("%s=%s changes nothing", (name, value) => {
    expectUnchanged({ [name]: value });
  });

  test("BUN_BE_BUN=1 does not give a JavaScript interpreter, an installer or a script runner", () => {
    for (const args of [["-e", `require(${JSON.stringify(script)})`], ["run", script], ["x", "cowsay"], [script]]) {
      const { code, err } = run(args, { BUN_BE_BUN: "1" }, dir);
      expect(code).toBe(1);
      expect(err).toStartWith("kube-proxy: ");
      expect(existsSync(marker)).toBe(false);
    }
  });

  test("options of the runtime on the command line are unknown flags", () => {
    for (const flag of [`--preload=${script}`, "--inspect", "--smol", `--env-file=${dir}/.env`]) {
      const { code, err } = run([flag], {});
      expect(code).toBe(1);
      expect(err).toStartWith("kube-proxy: ");
    }
  });
});

describe("files in the working directory", () => {
  test("bunfig.toml, tsconfig.json, package.json and node_modules are not read", () => {
    const cwd = `${dir}/cwd`;
    mkdirSync(`${cwd}/node_modules/yaml`, { recursive: true });
    writeFileSync(`${cwd}/bunfig.toml`, `preload = [${JSON.stringify(script)}]\n[run]\nsilent = true\n`);
    writeFileSync(`${cwd}/tsconfig.json`, "{ not json");
    writeFileSync(`${cwd}/package.json`, '{ "name": 7, "type": "commonjs", ');
    writeFileSync(`${cwd}/node_modules/yaml/package.json`, '{"name":"yaml","main":"index.js"}');
    writeFileSync(`${cwd}/node_modules/yaml/index.js`, `require(${JSON.stringify(script)})`);
    expectUnchanged({}, cwd);
    // A configuration file is read with the yaml package: the one inside the binary.
    writeFileSync(`${cwd}/config.yaml`, "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n");
    expect(run(["--config", "config.yaml", "--write-config-to", "out.yaml"], {}, cwd).code).toBe(0);
    expect(existsSync(marker)).toBe(false);
  });

  test(".env files are not read", () => {
    const cwd = `${dir}/env`;
    mkdirSync(cwd);
    const text = "KUBERNETES_SERVICE_HOST=203.0.113.77\nKUBERNETES_SERVICE_PORT=443\n";
    for (const name of [".env", ".env.local", ".env.production", ".env.development"])
      writeFileSync(`${cwd}/${name}`, text);
    const args = ["render", "--kubeconfig", `${cwd}/absent`, "--master", ""];
    expect(run(args, {}, cwd)).toEqual(run(args, {}));
    const inCluster = [
      "-n",
      binary,
      "--hostname-override",
      "node-1",
      "--healthz-bind-address",
      "",
      "--metrics-bind-address",
      "",
    ];
    const done = Bun.spawnSync(["unshare", ...inCluster], { env: {}, cwd, timeout: 20_000 });
    expect(done.exitCode).toBe(1);
    expect(done.stderr.toString()).not.toContain("203.0.113.77");
  });
});

test("a runtime in which a name is missing or doubled is refused", () => {
  const names = Object.keys(disarmed);
  const good = Buffer.from(`x\0${names.join("\0x\0")}\0`);
  expect(disarm(good, names)).toEqual([]);
  expect(good.toString()).toContain("\0=UN_BE_BUN\0");
  expect(disarm(Buffer.from("x\0BUN_BE_BUN\0BUN_BE_BUN\0"), ["BUN_BE_BUN"])).toEqual(["BUN_BE_BUN"]);
  expect(disarm(Buffer.from("nothing"), ["BUN_BE_BUN"])).toEqual(["BUN_BE_BUN"]);
});
