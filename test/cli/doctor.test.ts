/** doctor: what it finds on hosts and clusters that lack something, each with what it means and the command that fixes it. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { parseAllDocuments } from "yaml";
import type { ApiObject } from "../api/object-store.ts";
import { startApiServer } from "../api/server.ts";
import { cluster, folder, kernelUnavailable, kubeProxy, Net, node, program, type Ran, sh, web } from "./program.ts";

setDefaultTimeout(120_000);
const unavailable = kernelUnavailable("nft", "iptables", "iptables-legacy", "ip");
if (unavailable !== undefined) console.warn(`doctor: kernel tests skipped: ${unavailable}`);
const inKernel = test.skipIf(unavailable !== undefined);
const manifests = cluster();
const closers: (() => void)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

interface Finding {
  readonly topic: string;
  readonly verdict: string;
  readonly found: string;
  readonly meaning: string;
  readonly fix: string;
}

interface Answer {
  readonly mode: string;
  readonly runs: boolean;
  readonly checks: readonly Finding[];
}

function answer({ out, err }: Ran): Answer {
  if (!out.startsWith("{")) throw new Error(`no JSON: ${out}${err}`);
  return JSON.parse(out) as Answer;
}

const about = ["--manifests", manifests, "--node-name", "n1", "--cluster-cidr", "10.1.0.0/16,fd01::/64", "-o", "json"];

function finding(of: Answer, text: string | RegExp): Finding | undefined {
  return of.checks.find(({ found }) => (typeof text === "string" ? found.includes(text) : text.test(found)));
}

async function net(): Promise<Net> {
  const one = await Net.open();
  closers.push(() => one.close());
  return one;
}

inKernel("a good host: both modes can run, versions are told, and nothing is changed", async () => {
  const host = await net();
  const look = "iptables-save; iptables-legacy-save; nft list ruleset; cat /proc/net/ip_tables_names; nfacct list";
  const before = (await host.sh("nft list ruleset; cat /proc/net/ip_tables_names; nfacct list")).out;
  for (const mode of ["nftables", "iptables"]) {
    const ran = await host.kubeProxy("doctor", "--mode", mode, ...about);
    const found = answer(ran);
    expect({ code: ran.code, mode: found.mode, runs: found.runs }).toEqual({ code: 0, mode, runs: true });
    expect(finding(found, `IPv4: everything that ${mode} mode needs works`)?.verdict).toBe("ok");
    expect(finding(found, mode === "nftables" ? /nftables v\d/ : /iptables v\d/)?.verdict).toBe("ok");
    expect(finding(found, "no rules of any kube-proxy")?.verdict).toBe("ok");
    expect(finding(found, "Node n1 is there")?.verdict).toBe("ok");
    for (const { verdict, fix, meaning, found: what } of found.checks)
      if (verdict === "fail") expect({ what, fix, meaning }).not.toMatchObject({ fix: "" });
  }
  expect((await host.sh("nft list ruleset; cat /proc/net/ip_tables_names; nfacct list")).out).toBe(before);
  expect(look).toContain("iptables-legacy-save");
});

inKernel("leftovers of other modes and of the other variant are told, kubelet's own chains are not", async () => {
  const host = await net();
  await host.sh(`iptables-legacy -t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA; iptables-legacy -t nat -N KUBE-SERVICES
    iptables-nft -t nat -N KUBE-KUBELET-CANARY; nft add table ip6 kube-proxy`);
  const iptables = answer(await host.kubeProxy("doctor", "--mode", "iptables", ...about));
  expect(iptables.checks.filter(({ topic }) => topic === "leftovers")).toEqual([
    expect.objectContaining({
      verdict: "warn",
      found: "2 KUBE-* chains in iptables-legacy",
      fix: expect.stringContaining("--cleanup"),
    }),
    expect.objectContaining({ verdict: "warn", found: "table ip6 kube-proxy is there" }),
  ]);
  const nftables = answer(await host.kubeProxy("doctor", "--mode", "nftables", ...about));
  expect(finding(nftables, "table ip6 kube-proxy")).toMatchObject({ verdict: "ok" });
  expect(finding(nftables, "2 KUBE-* chains in iptables-legacy")).toMatchObject({ verdict: "warn" });
  expect(nftables.runs).toBe(true);
});

inKernel("tools that are missing: the mode's own fail with their package, others warn", async () => {
  const hide = (tool: string, mode: string) =>
    sh([
      "unshare",
      "-n",
      "-m",
      "sh",
      "-c",
      `mount --bind /dev/null "$(readlink -f "$(command -v ${tool})")" && exec "$@"`,
      "sh",
      ...program,
      "doctor",
      "--mode",
      mode,
      ...about,
    ]);
  const nft = await hide("nft", "nftables");
  expect(nft.code).toBe(1);
  expect(finding(answer(nft), "nft is not installed")).toMatchObject({
    verdict: "fail",
    fix: "apt-get install nftables",
  });
  const conntrack = await hide("conntrack", "nftables");
  expect(conntrack.code).toBe(0);
  expect(finding(answer(conntrack), "conntrack is not installed")).toMatchObject({
    verdict: "warn",
    meaning: expect.stringContaining("UDP"),
  });
});

test.skipIf(process.getuid?.() !== 0)("without rights: the mode cannot run, and what to do", async () => {
  await sh(["chmod", "-R", "a+rX", manifests]);
  const ran = await sh([
    "setpriv",
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
    ...program,
    "doctor",
    "--mode",
    "nftables",
    ...about,
  ]);
  expect(ran.code).toBe(1);
  expect(finding(answer(ran), "CAP_NET_ADMIN is missing")).toMatchObject({
    verdict: "fail",
    fix: expect.stringContaining("sudo"),
  });
  const ipvs = await kubeProxy("doctor", "--mode", "nftables", "--manifests", "/nonexistent");
  expect([ipvs.code, ipvs.out.includes("CANNOT run on this host")]).toEqual([1, true]);
});

const objects = [node, web].flatMap((text) => parseAllDocuments(text).map((one) => one.toJS() as ApiObject));

test.skipIf(unavailable !== undefined)(
  "an API server without access reviews: rights are tried; a Node of another name is told",
  async () => {
    const server = startApiServer({ objects });
    const kubeconfig = `${folder({})}/kubeconfig`;
    server.writeKubeconfig({}, kubeconfig);
    const ask = (name: string) =>
      kubeProxy("doctor", "--mode", "nftables", "--kubeconfig", kubeconfig, "--node-name", name, "-o", "json");
    const good = answer(await ask("n1"));
    expect(finding(good, `the API server answers at ${server.url}`)?.verdict).toBe("ok");
    expect(finding(good, "Node n1 is there, with 192.0.2.1")?.verdict).toBe("ok");
    expect(finding(good, "agree")?.verdict).toBe("ok");
    expect(finding(good, /could not be told.* services$/)?.verdict).toBe("warn");
    expect(finding(answer(await ask("n2")), "no Node is named n2 (hostnameOverride)")).toMatchObject({
      verdict: "warn",
      fix: expect.stringContaining("kubectl get nodes"),
    });
    await server.stop();
    const gone = await ask("n1");
    expect(gone.code).toBe(1);
    expect(finding(answer(gone), "the connection is refused")).toMatchObject({ topic: "cluster", verdict: "fail" });
  },
);

test.skipIf(unavailable !== undefined)(
  "rights that are denied, and a clock that is wrong, are told by name",
  async () => {
    interface Review {
      readonly spec: {
        readonly resourceAttributes: { readonly group: string; readonly resource: string; readonly verb: string };
      };
    }
    const asked: string[] = [];
    const denied = new Set(["endpointslices watch", "events create"]);
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      development: false,
      fetch: async (request) => {
        const headers = { date: new Date(Date.now() - 120_000).toUTCString() };
        const { pathname } = new URL(request.url);
        if (pathname.endsWith("/selfsubjectaccessreviews")) {
          const { resource, verb } = ((await request.json()) as Review).spec.resourceAttributes;
          asked.push(`${resource} ${verb}`);
          return Response.json(
            { kind: "SelfSubjectAccessReview", status: { allowed: !denied.has(`${resource} ${verb}`) } },
            { headers },
          );
        }
        if (pathname === "/api/v1/nodes/n1") return Response.json(objects[0], { headers });
        return Response.json({ kind: "ServiceList", items: [] }, { headers });
      },
    });
    const kubeconfig = `${folder({ k: `apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: "http://127.0.0.1:${server.port}"}}]\nusers: [{name: a, user: {}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n` })}/k`;
    const ran = await kubeProxy(
      "doctor",
      "--mode",
      "nftables",
      "--kubeconfig",
      kubeconfig,
      "--node-name",
      "n1",
      "-o",
      "json",
    );
    await server.stop(true);
    const found = answer(ran);
    expect(ran.code).toBe(1);
    expect(finding(found, "may not watch endpointslices.discovery.k8s.io")).toMatchObject({
      verdict: "fail",
      fix: expect.stringContaining("system:node-proxier"),
    });
    expect(finding(found, "may not create events.events.k8s.io")).toMatchObject({ verdict: "warn" });
    expect(finding(found, "may list, watch services")?.verdict).toBe("ok");
    expect(finding(found, /this clock is 1[12]\d s ahead of/)).toMatchObject({
      verdict: "warn",
      fix: expect.stringContaining("ntp"),
    });
    expect(asked.sort()).toEqual(
      [
        ...[
          "services list",
          "services watch",
          "endpointslices list",
          "endpointslices watch",
          "nodes get",
          "nodes list",
        ],
        ...["nodes watch", "servicecidrs list", "servicecidrs watch", "events create", "events patch"],
      ].sort(),
    );
  },
);

test("a mistake in the command line: code 2", async () => {
  expect(await kubeProxy("doctor", "--mode", "ebpf", "--manifests", manifests)).toMatchObject({
    code: 2,
    out: "",
    err: expect.stringContaining("ebpf"),
  });
});
