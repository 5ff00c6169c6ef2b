/** The whole program on several manifest paths: rules of all of them, live changes, and broken files that hurt nobody. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { empty, folder, kernelUnavailable, kubeProxy, Net, node, until, web } from "../cli/program.ts";

setDefaultTimeout(120_000);
const unavailable = kernelUnavailable("nft", "ip");
if (unavailable !== undefined) console.warn(`manifests: kernel tests skipped: ${unavailable}`);
const inKernel = test.skipIf(unavailable !== undefined);
const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

const service = (name: string, ip: string): string =>
  empty.replace("name: empty", `name: ${name}`).replace("10.0.0.11", ip);

inKernel("two folders and a file: all served, each followed, a broken one named and kept", async () => {
  const net = await Net.open();
  closers.push(() => net.close());
  const [one, two] = [folder({ "node.yaml": node, "web.yaml": web }), folder({ "empty.yaml": empty })];
  const single = `${folder({ "extra.yaml": service("extra", "10.0.0.12") })}/extra.yaml`;
  const process = net.start(
    ...["--proxy-mode", "nftables", "--hostname-override", "n1", "--cluster-cidr", "10.1.0.0/16"],
    ...["--manifests", one, `--manifests=${two},${single}`, "--oom-score-adj", "0", "--conntrack-max-per-core", "0"],
  );
  closers.push(() => process.kill());
  let log = "";
  const logged = (async () => {
    for await (const chunk of process.stderr) log += Buffer.from(chunk).toString();
  })();
  const ips = async (): Promise<readonly string[]> =>
    [...(await net.sh("nft list set ip kube-proxy cluster-ips")).out.matchAll(/10\.0\.0\.\d+/g)]
      .map(([ip]) => ip)
      .sort();
  const serves = (what: string, ...wanted: readonly string[]) =>
    until(`${what}\n${log}`, async () => (await ips()).join(" ") === wanted.join(" "));

  await serves("all three", "10.0.0.10", "10.0.0.11", "10.0.0.12");
  expect((await net.kubeProxy("status")).out).toContain(`Objects from  ${one}, ${two}, ${single}`);

  writeFileSync(`${two}/more.yaml`, service("more", "10.0.0.13"));
  await serves("a new file in the second folder", "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13");
  rmSync(`${two}/more.yaml`);
  await serves("it is gone", "10.0.0.10", "10.0.0.11", "10.0.0.12");

  writeFileSync(single, `${service("extra", "10.0.0.14")}---\nkind: Service\nmetadata: {name: [}\n`);
  writeFileSync(`${two}/empty.yaml`, service("empty", "10.0.0.15"));
  await serves("the other file only", "10.0.0.10", "10.0.0.12", "10.0.0.15");
  expect(log).toContain(`${single}:7:19`);
  expect(log).toContain("its last good content is kept");
  writeFileSync(single, service("extra", "10.0.0.14"));
  await serves("corrected", "10.0.0.10", "10.0.0.14", "10.0.0.15");

  process.kill("SIGTERM");
  await Promise.all([process.exited, logged]);
  expect(process.exitCode).toBe(0);
  expect((await ips()).length).toBe(3);
});

test("one of the paths is not there: exit 1, one line that names it", async () => {
  const { code, err } = await kubeProxy(
    ...["--manifests", folder({ "a.yaml": empty }), "--manifests", "/nonexistent/m"],
    ...["--metrics-bind-address", "", "--healthz-bind-address", ""],
  );
  expect(code).toBe(1);
  expect(err.split("\n").filter((line) => line.includes("/nonexistent/m: no such file or folder")).length).toBe(1);
  expect(err).not.toContain("    at ");
});
