/** In kubeadm's place: its ConfigMap as it is, the paths of its DaemonSet, and no right that its role does not give. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseAllDocuments } from "yaml";
import { load } from "../../src/cli/load.ts";
import { binary, Space, until } from "../cleanup/space.ts";
import { configConf, kubeconfigConf } from "./kubeadm-config-map.ts";

setDefaultTimeout(60_000);

const token = "kubeadm-service-account-token";
let space: Space;

/** An API server with TLS that takes the service account's token only, and the pod's files where kubeadm mounts them. */
beforeAll(async () => {
  space = await Space.open();
  const node = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "node-1" },
    spec: { podCIDRs: ["10.244.0.0/24"] },
    status: { addresses: [{ type: "InternalIP", address: "192.168.0.2" }] },
  };
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "default", uid: "web" },
    spec: {
      type: "ClusterIP",
      clusterIP: "10.96.0.10",
      clusterIPs: ["10.96.0.10"],
      ipFamilies: ["IPv4"],
      ports: [{ port: 80, protocol: "TCP" }],
    },
  };
  writeFileSync(`${space.dir}/objects.yaml`, [node, service].map((o) => JSON.stringify(o)).join("\n---\n"));
  const args = [`${space.dir}`, token, `${space.dir}/objects.yaml`];
  const apiLog = `${space.dir}/api.log`;
  space.start([process.execPath, `${import.meta.dir}/token-api.ts`, ...args], apiLog);
  await until("the API server is up", () => readFileSync(apiLog, "utf8").includes("https"));
  const account = `${space.dir}/run/secrets/kubernetes.io/serviceaccount`;
  mkdirSync(account, { recursive: true });
  writeFileSync(`${account}/token`, `${token}\n`);
  writeFileSync(`${account}/ca.crt`, readFileSync(`${space.dir}/ca.crt`));
  // A ConfigMap volume: files are links through ..data.
  const volume = `${space.dir}/lib/kube-proxy`;
  mkdirSync(`${volume}/..2026_11_30`, { recursive: true });
  writeFileSync(`${volume}/..2026_11_30/config.conf`, configConf);
  writeFileSync(`${volume}/..2026_11_30/kubeconfig.conf`, kubeconfigConf);
  const links = `cd ${volume}; ln -s ..2026_11_30 ..data; ln -s ..data/config.conf config.conf; ln -s ..data/kubeconfig.conf kubeconfig.conf`;
  space.must(["sh", "-ec", `${links}; mount --bind ${space.dir}/run /run; mount --bind ${space.dir}/lib /var/lib`]);
});
afterAll(() => space.close());

test("the ConfigMap is accepted without a word about it", async () => {
  const loaded = await load(["--config=/config.conf", "--hostname-override=node-1"], () => configConf);
  expect(loaded.kind).toBe("run");
  if (loaded.kind !== "run") return;
  expect(loaded.warnings).toEqual([]);
  expect(loaded.config).toMatchObject({
    clientConnection: { kubeconfig: "/var/lib/kube-proxy/kubeconfig.conf" },
    clusterCIDR: "10.244.0.0/16",
    mode: "iptables",
  });
});

test("init container and main container, with the command line of kubeadm's DaemonSet", async () => {
  const command = [binary, "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=node-1"];
  expect(space.run([...command, "--init-only"])).toMatchObject({ code: 0 });
  const log = `${space.dir}/proxy.log`;
  const limits = [
    "--bounding-set=-all,+net_admin,+net_raw",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--no-new-privs",
  ];
  const child = space.start(["setpriv", ...limits, ...command], log);
  const text = () => readFileSync(log, "utf8");
  await until(
    "rules are in place",
    () => {
      if (child.exitCode !== null) throw new Error(text());
      return text().includes("Rules are in place");
    },
    text,
  );
  expect(space.must(["iptables-save"])).toContain("10.96.0.10/32");
  expect(readFileSync(log, "utf8")).not.toMatch(/^E/m);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
});

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

const manifests = parseAllDocuments(readFileSync(resolve(import.meta.dir, "../../scripts/daemonset.yaml"), "utf8")).map(
  (document) => {
    expect(document.errors).toEqual([]);
    return document.toJS({ maxAliasCount: 100 });
  },
);
const ofKind = (kind: string) => manifests.find((m) => m.kind === kind);

describe("scripts/daemonset.yaml", () => {
  test("its role allows every request of every mode, and nothing that was never asked", async () => {
    for (const mode of ["iptables", "nftables"]) {
      const log = `${space.dir}/rbac-${mode}.log`;
      const flags = [
        "--kubeconfig",
        "/var/lib/kube-proxy/kubeconfig.conf",
        "--hostname-override",
        "node-1",
        "--proxy-mode",
        mode,
      ];
      const child = space.start([binary, ...flags], log);
      await until(`${mode} mode is up`, () => readFileSync(log, "utf8").includes("Rules are in place"));
      await Bun.sleep(300);
      child.kill("SIGTERM");
      await child.exited;
    }
    const answer = await fetch("http://x/_control/requests", { unix: `${space.dir}/control` });
    const requests = (await answer.json()) as readonly { readonly method: string; readonly path: string }[];
    const rules = ofKind("ClusterRole").rules as readonly Rule[];
    const asked = new Set(requests.map(access));
    expect(asked.size).toBeGreaterThan(5);
    expect([...asked].filter((wish) => !rules.some((rule) => allows(rule, wish)))).toEqual([]);
    const idle = rules
      .flatMap((rule) => rule.resources)
      .filter((r) => ![...asked].some((wish) => wish.includes(` ${r}`)));
    expect(idle).toEqual([]);
  });

  test("its containers: one image, only what is measured to be needed, command lines that our parser takes", async () => {
    const pod = ofKind("DaemonSet").spec.template.spec;
    const [init] = pod.initContainers;
    const [main] = pod.containers;
    expect(init.image).toBe(main.image);
    expect(init.args).toEqual([...main.args, "--init-only"]);
    expect(main.securityContext).toMatchObject({
      privileged: false,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: ["NET_ADMIN", "NET_RAW"] },
    });
    expect(pod).toMatchObject({ hostNetwork: true, enableServiceLinks: false, serviceAccountName: "kube-proxy" });
    // The environment of a container is what is listed: one name.
    expect(main.env.map((e: { name: string }) => e.name)).toEqual(["NODE_NAME"]);
    for (const container of [init, main]) {
      const argv = container.args.map((arg: string) => arg.replace("$(NODE_NAME)", "node-1"));
      expect((await load(argv, () => configConf)).kind).toBe("run");
    }
    const volumes = new Set(pod.volumes.map((v: { name: string }) => v.name));
    for (const mount of [...init.volumeMounts, ...main.volumeMounts]) expect(volumes.has(mount.name)).toBe(true);
    expect(ofKind("ClusterRoleBinding").roleRef.name).toBe(ofKind("ClusterRole").metadata.name);
    expect(ofKind("ClusterRoleBinding").subjects[0].name).toBe(ofKind("ServiceAccount").metadata.name);
  });
});

/** `list endpointslices discovery.k8s.io` */
function access({ method, path }: { readonly method: string; readonly path: string }): string {
  const url = new URL(path, "http://x");
  const parts = url.pathname.split("/").filter((part) => part !== "");
  const group = parts[0] === "api" ? "" : (parts[1] ?? "");
  const rest = parts.slice(parts[0] === "api" ? 2 : 3);
  const [resource = "", name] = rest[0] === "namespaces" && rest.length > 2 ? rest.slice(2) : rest;
  const verbs: Readonly<Record<string, string>> = { POST: "create", PATCH: "patch", PUT: "update", DELETE: "delete" };
  const reading = /[?&]watch=(1|true)/.test(url.search) ? "watch" : name === undefined ? "list" : "get";
  return `${verbs[method] ?? reading} ${resource} ${group}`;
}

function allows(rule: Rule, wish: string): boolean {
  const [verb = "", resource = "", group = ""] = wish.split(" ");
  return rule.verbs.includes(verb) && rule.resources.includes(resource) && rule.apiGroups.includes(group);
}
