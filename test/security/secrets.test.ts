/** A real run against an API server with TLS and a token: certificates are verified, secrets stay inside, tools get a fixed environment. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { makeAuthority } from "../api/certificates.ts";
import { binary, Space, until } from "../cleanup/space.ts";

setDefaultTimeout(60_000);

const token = "kp-s3cret-token-0123456789";
const open: Space[] = [];
afterEach(async () => {
  for (const space of open.splice(0)) await space.close();
});

/** A namespace with an API server that demands the token and a certificate. */
async function withApi(): Promise<{ readonly space: Space; readonly kubeconfig: string }> {
  const space = await Space.open();
  open.push(space);
  const kubeconfig = `${space.dir}/kubeconfig`;
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node-1" },
    status: { addresses: [{ type: "InternalIP", address: "192.168.0.2" }] },
  };
  writeFileSync(`${space.dir}/objects.yaml`, JSON.stringify(node));
  const args = [
    "--objects",
    `${space.dir}/objects.yaml`,
    "--kubeconfig-out",
    kubeconfig,
    "--tls-dir",
    `${space.dir}/tls`,
    "--token",
    token,
  ];
  space.start([process.execPath, `${import.meta.dir}/../api/main.ts`, ...args], `${space.dir}/api.log`);
  await until(
    "the API server is up",
    () => existsSync(kubeconfig) && readFileSync(`${space.dir}/api.log`, "utf8").includes("http"),
  );
  return { space, kubeconfig };
}

function start(space: Space, kubeconfig: string, env: Readonly<Record<string, string>>, ...more: readonly string[]) {
  const log = `${space.dir}/proxy.log`;
  const settings = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const flags = [
    "--proxy-mode",
    "nftables",
    "--kubeconfig",
    kubeconfig,
    "--hostname-override",
    "node-1",
    "-v",
    "9",
    ...more,
  ];
  const child = space.start(["env", "-i", ...settings, binary, ...flags], log);
  return { child, log: () => readFileSync(log, "utf8") };
}

const curious = {
  BUN_CONFIG_VERBOSE_FETCH: "curl",
  NODE_DEBUG: "http,http2,https,tls,net,fs,fetch,undici",
  DEBUG: "*",
};

test("the token is in no log line at -v 9 and on no page, whatever the environment asks for", async () => {
  const { space, kubeconfig } = await withApi();
  const { log, child } = start(space, kubeconfig, curious);
  await until("the proxy is up", () => log().includes("Rules are in place"));
  const key = readFileSync(kubeconfig, "utf8");
  expect(key).toContain(token);
  for (const page of ["configz", "flagz", "statusz", "metrics", "proxyMode", "healthz"]) {
    const { code, out } = space.run(["curl", "-sS", `http://127.0.0.1:10249/${page}`]);
    expect(code).toBe(0);
    expect(out.length).toBeGreaterThan(0);
    expect(out).not.toContain(token);
    expect(out).not.toContain("PRIVATE KEY");
  }
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
  expect(log()).not.toContain(token);
  expect(log().toLowerCase()).not.toContain("bearer");
  expect(log()).not.toContain("PRIVATE KEY");
});

test.each([
  ["NODE_TLS_REJECT_UNAUTHORIZED", "0"],
  ["BUN_OPTIONS", "--insecure"],
  ["NODE_OPTIONS", "--use-openssl-ca"],
  ["NODE_EXTRA_CA_CERTS", "server"],
  ["SSL_CERT_FILE", "server"],
])("%s=%s does not make an unknown certificate authority good", async (name, value) => {
  const { space, kubeconfig } = await withApi();
  const wrong = makeAuthority("another-ca", space.dir);
  const text = readFileSync(kubeconfig, "utf8");
  const data = /"certificate-authority-data": "(.+?)"/.exec(text)?.[1] ?? "none";
  const other = `${space.dir}/kubeconfig-wrong-ca`;
  const swapped = text.replace(data, Buffer.from(wrong.cert).toString("base64"));
  expect(swapped === text).toBe(false);
  writeFileSync(other, swapped);
  const serverCA = Bun.spawnSync(["sh", "-c", `ls ${space.dir}/tls/*/ca.crt`])
    .stdout.toString()
    .trim();
  expect(existsSync(serverCA)).toBe(true);
  const { log } = start(space, other, { [name]: value === "server" ? serverCA : value });
  await until("it refuses", () => /certificate/i.test(log()));
  expect(log()).not.toContain("Rules are in place");
  expect(readFileSync(`${space.dir}/api.log`, "utf8")).not.toContain("/api/v1");
});

test("tools get PATH and LC_ALL and nothing else, and are found by absolute path only", async () => {
  const space = await Space.open();
  open.push(space);
  const spy = `${space.dir}/spy`;
  const seen = `${space.dir}/seen`;
  // Bound over the real nft: what it is started with is kept, then the real one runs.
  space.must(["sh", "-ec", `cp "$(command -v nft)" ${space.dir}/nft-real`]);
  writeFileSync(spy, `#!/bin/sh\ntr '\\0' '\\n' </proc/$$/environ >>${seen}\nexec ${space.dir}/nft-real "$@"\n`);
  chmodSync(spy, 0o755);
  space.must(["sh", "-ec", `mount --bind ${spy} "$(command -v nft)"`]);
  mkdirSync(`${space.dir}/path`);
  const marker = `${space.dir}/marker`;
  for (const tool of ["nft", "iptables", "ipset", "ip", "conntrack"]) {
    writeFileSync(`${space.dir}/path/${tool}`, `#!/bin/sh\ntouch ${marker}\n`);
    chmodSync(`${space.dir}/path/${tool}`, 0o755);
  }
  const env = [
    `PATH=${space.dir}/path`,
    "KUBE_SECRET=hidden",
    "NOTIFY_SOCKET=/nowhere",
    "LD_LIBRARY_PATH=/nowhere",
    "HOME=/root",
  ];
  const { code } = space.run(["/usr/bin/env", "-i", ...env, binary, "--cleanup"]);
  expect(code).toBe(0);
  expect(existsSync(marker)).toBe(false);
  const names = new Set(
    readFileSync(seen, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => line.split("=")[0]),
  );
  expect([...names].sort()).toEqual(["LC_ALL", "PATH"]);
  expect(readFileSync(seen, "utf8")).not.toContain(space.dir);
});
