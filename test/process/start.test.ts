import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { clientCertificate, makeAuthority, serverCertificate } from "../api/certificates.ts";
import {
  fit,
  healthy,
  newApi,
  newDir,
  nftTable,
  type ProxyRun,
  resetHost,
  runBinary,
  startProxy,
  statusOf,
  until,
} from "./harness.ts";
import { node1, service, slice } from "./objects.ts";

const noTrace = /\n\s+at |\.ts:\d+/;

async function lastLine(run: ProxyRun): Promise<string> {
  expect(await run.exit()).toBe(1);
  const text = run.log().trim();
  expect(text).not.toMatch(noTrace);
  return text.split("\n").at(-1) ?? "";
}

describe.skipIf(!fit)("start", () => {
  test.each([
    [["--no-such-flag"], /--no-such-flag/],
    [["--proxy-mod=iptables"], /--proxy-mode/],
    [["stray"], /stray/],
    [["--proxy-mode=ebpf"], /ebpf.*iptables/],
    [["--config=/nonexistent"], /\/nonexistent/],
    [["--kubeconfig=/nonexistent"], /\/nonexistent/],
    [["--bind-address=nonsense"], /nonsense/],
  ])("a mistake is one clear line and exit code 1: %p", async (args, expected) => {
    expect(await lastLine(runBinary(args))).toMatch(expected);
  });

  test("an invalid configuration names file, line, field and all faults at once", async () => {
    const file = `${newDir()}/c.yaml`;
    writeFileSync(
      file,
      "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ebpf\niptables:\n  masqueradeBit: 77\n",
    );
    const run = runBinary(["--config", file]);
    expect(await run.exit()).toBe(1);
    expect(run.log()).toContain(`${file}:3:`);
    expect(run.log()).toContain("iptables.masqueradeBit");
    expect(run.log()).not.toMatch(noTrace);
  });

  test("no rule is written, and health is 503, until the API server has answered; then everything comes up by itself", async () => {
    resetHost();
    const api = newApi();
    await api.stop();
    const run = startProxy(api);
    await until(
      () => /Waiting for the Node/.test(run.log()),
      () => run.log(),
    );
    expect(await statusOf("http://127.0.0.1:10256/healthz")).toBe(503);
    expect(nftTable()).toBe("");
    api.setNode("node-1", node1);
    api.apply([service("a"), slice("a", ["10.244.2.5"])]);
    await api.restart();
    await until(healthy, () => run.log());
    expect(nftTable()).toContain("10.96.0.10 . tcp . 80 : goto service-");
    await run.stop();
  });

  test("a stalled list keeps rules away, and the working ones of the last run in place", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([service("a"), slice("a", ["10.244.2.5"])]);
    const first = startProxy(api);
    await until(healthy, () => first.log());
    await first.stop();
    api.fault({ resource: "endpointslices", fault: { kind: "stall" } } as never);
    const second = startProxy(api);
    await Bun.sleep(1_500);
    expect(nftTable()).toContain("10.96.0.10 . tcp . 80 : goto service-");
    expect(nftTable()).toContain("10.244.2.5");
    await second.stop();
  });

  test.each(["forbidden", "unauthorized"])("%s: says which verb on which resource", async (kind) => {
    resetHost();
    const api = newApi(kind === "unauthorized" ? { tokens: ["right"] } : {});
    api.setNode("node-1", node1);
    if (kind === "forbidden") api.forbid("list", "services");
    if (kind === "forbidden") api.forbid("watch", "services");
    const run = startProxy(api, kind === "unauthorized" ? { kubeconfig: api.kubeconfig({ token: "wrong" }) } : {});
    const expected = kind === "forbidden" ? /(list|watch).*services|services.*(list|watch)/ : /get.*nodes|nodes.*get/;
    await until(
      () => expected.test(run.log()),
      () => run.log(),
    );
    expect(await statusOf("http://127.0.0.1:10256/healthz")).toBe(503);
    expect(run.log()).not.toMatch(noTrace);
    await run.stop();
  });

  test("TLS with client certificates and a CA", async () => {
    resetHost();
    const ca = makeAuthority();
    const api = newApi({ tls: serverCertificate(ca), clientCA: ca.cert });
    api.setNode("node-1", node1);
    const run = startProxy(api, {
      kubeconfig: api.kubeconfig({ ca: ca.cert, client: clientCertificate(ca, "system:kube-proxy") }),
    });
    await until(healthy, () => run.log());
    await run.stop();
    const stranger = startProxy(api, { kubeconfig: api.kubeconfig({ client: clientCertificate(ca, "x") }) });
    await until(
      () => /certificate/i.test(stranger.log()),
      () => stranger.log(),
    );
    expect(await healthy()).toBe(false);
    await stranger.stop();
  });

  test("TLS with a bearer token file, re-read when it is rotated", async () => {
    resetHost();
    const ca = makeAuthority();
    const api = newApi({ tls: serverCertificate(ca), tokens: ["first"] });
    api.setNode("node-1", node1);
    const tokenFile = `${newDir()}/token`;
    writeFileSync(tokenFile, "first\n");
    const run = startProxy(api, { kubeconfig: api.kubeconfig({ ca: ca.cert, tokenFile }) });
    await until(healthy, () => run.log());
    writeFileSync(tokenFile, "second\n");
    await api.restart({ tokens: ["second"] });
    api.apply([service("late"), slice("late", ["10.244.2.9"])]);
    await until(
      () => nftTable().includes("10.244.2.9"),
      () => run.log(),
    );
    await run.stop();
    expect(run.log()).not.toContain("second");
  });

  test("malformed objects are named once, the rest is programmed", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    api.apply([service("good"), slice("good", ["10.244.2.5"])]);
    api.apply(
      service("bad", {
        clusterIP: "10.96.0.11",
        ports: [
          { port: 99999, protocol: "TCP" },
          { name: "ok", port: 81, protocol: "TCP" },
        ],
      }),
    );
    const run = startProxy(api);
    await until(healthy, () => run.log());
    expect(nftTable()).toContain("10.96.0.10 . tcp . 80 : goto");
    expect(nftTable()).toContain("10.96.0.11 . tcp . 81");
    expect(run.log().match(/99999/g)).toHaveLength(1);
    await run.stop();
  });

  test("without iptables the package is named and nothing else happens", async () => {
    resetHost();
    const api = newApi();
    api.setNode("node-1", node1);
    const dir = newDir();
    const binaries = ["/usr/sbin/iptables", "/usr/sbin/ip6tables"]
      .map((b) => `mount --bind ${dir}/empty ${b}`)
      .join("; ");
    writeFileSync(`${dir}/empty`, "", { mode: 0o644 });
    const { binary } = await import("./harness.ts");
    const config = `${dir}/c.yaml`;
    writeFileSync(
      config,
      JSON.stringify({
        apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
        kind: "KubeProxyConfiguration",
        mode: "iptables",
        clientConnection: { kubeconfig: api.writeKubeconfig() },
        conntrack: { maxPerCore: 0, min: 0 },
      }),
    );
    const child = Bun.spawn(
      ["unshare", "-m", "sh", "-c", `${binaries}; exec ${binary} --config ${config} --hostname-override node-1`],
      { stdout: "pipe", stderr: "pipe", timeout: 20_000 },
    );
    const text = (await child.stdout.text()) + (await child.stderr.text());
    await child.exited;
    expect(child.exitCode).toBe(1);
    expect(text).toMatch(/iptables/);
    expect(text).toMatch(/package/);
    expect(text).not.toMatch(noTrace);
  });
});
