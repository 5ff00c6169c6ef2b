/** Loads a kubeconfig by client-go's rules (client-node's loader ignores tokenFile, lets files win over `*-data`, drops exec details). */
import { readFileSync } from "node:fs";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import {
  anonymousAccess,
  type ClusterAccess,
  type ExecPlugin,
  type Impersonation,
  KubeconfigError,
  type Secret,
  serverUrl,
} from "./cluster-access.ts";
import { inClusterAccess } from "./in-cluster.ts";
import { Fields } from "./kubeconfig-fields.ts";

/**
 * What `--kubeconfig` (or `clientConnection.kubeconfig`) and `--master` say together; both empty: the service account of the pod.
 * Throws KubeconfigError. Files named inside (certificates, tokens) are not read here.
 */
export function loadAccess(kubeconfig: string, master: string): ClusterAccess {
  if (kubeconfig !== "") {
    const access = parseKubeconfig(readText(kubeconfig), kubeconfig);
    return master === "" ? access : { ...access, server: masterUrl(master, usesTls(access)), serverName: "" };
  }
  if (master !== "") return anonymousAccess(masterUrl(master, false), "--master");
  return inClusterAccess(process.env);
}

/** The access that the current context of a kubeconfig describes. `file` is named in errors and resolves relative paths. */
export function parseKubeconfig(text: string, file: string): ClusterAccess {
  const root = readRoot(text, file);
  const context = currentContext(root);
  const cluster = named(root, "clusters", "cluster", context.cluster, context.clusterAt);
  const user = context.user === "" ? undefined : named(root, "users", "user", context.user, context.userAt);
  const base = dirname(resolve(file));
  const access = {
    ...anonymousAccess("", file),
    ...clusterPart(cluster, base),
    ...(user ? userPart(user, cluster, base) : {}),
  };
  const server = serverUrl(cluster.text("server"), usesTls(access));
  if (server === undefined) {
    return cluster.fail("server", `${JSON.stringify(cluster.text("server"))} is not a URL like https://192.0.2.1:6443`);
  }
  return { ...access, server };
}

// --- internal ---

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const code = (cause as { code?: string }).code ?? String(cause);
    const reason = code === "ENOENT" ? "no such file" : code === "EACCES" ? "permission denied" : code;
    throw new KubeconfigError(file, "", `cannot read the kubeconfig: ${reason}`, { cause });
  }
}

function readRoot(text: string, file: string): Fields {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    throw new KubeconfigError(`${file}:${line}:${col}`, "", `not valid YAML: ${error.message.split("\n")[0]}`);
  }
  const content: unknown = document.toJS();
  if (content === null || content === undefined) throw new KubeconfigError(file, "", "the kubeconfig is empty");
  const root = new Fields(file, "", content);
  if (!["", "v1"].includes(root.text("apiVersion")))
    root.fail("apiVersion", `${root.text("apiVersion")} is unknown, v1 is expected`);
  if (!["", "Config"].includes(root.text("kind")))
    root.fail("kind", `${root.text("kind")} is no kubeconfig, Config is expected`);
  return root;
}

function currentContext(root: Fields) {
  const name = root.text("current-context");
  if (name === "") root.fail("current-context", `not set; allowed: ${nameList(root, "contexts")}`);
  const context = named(root, "contexts", "context", name, "current-context");
  const cluster = context.text("cluster");
  if (cluster === "") context.fail("cluster", `not set; allowed: ${nameList(root, "clusters")}`);
  return { cluster, clusterAt: `context ${name}`, user: context.text("user"), userAt: `context ${name}` };
}

/** The entry of that name in `clusters`, `users` or `contexts`; `from` says who asked for it. */
function named(root: Fields, list: string, inner: string, name: string, from: string): Fields {
  for (const entry of root.mappings(list)) {
    if (entry.text("name") !== name) continue;
    const found = entry.mapping(inner);
    if (found === undefined && inner === "user") return new Fields("", "", {});
    return found ?? entry.fail(inner, "is empty");
  }
  return root.fail(
    list,
    `has no entry ${JSON.stringify(name)}, which ${from} names; there are: ${nameList(root, list)}`,
  );
}

function nameList(root: Fields, list: string): string {
  const names = root.mappings(list).map((entry) => entry.text("name"));
  return names.length === 0 ? `none (${list} is empty)` : names.join(", ");
}

function clusterPart(cluster: Fields, base: string): Partial<ClusterAccess> {
  const ca = secret(cluster, "certificate-authority", base);
  const insecure = cluster.flag("insecure-skip-tls-verify");
  if (insecure && ca !== undefined) {
    cluster.fail("insecure-skip-tls-verify", "a certificate authority is given too: remove one of them");
  }
  const proxy = cluster.text("proxy-url");
  if (proxy !== "" && !/^https?:\/\/[^/]/.test(proxy)) {
    cluster.fail("proxy-url", `${JSON.stringify(proxy)}: only http:// and https:// proxies are supported`);
  }
  return { ca, insecure, proxy, serverName: cluster.text("tls-server-name") };
}

function userPart(user: Fields, cluster: Fields, base: string): Partial<ClusterAccess> {
  const clientCertificate = secret(user, "client-certificate", base);
  const clientKey = secret(user, "client-key", base);
  if (clientCertificate !== undefined && clientKey === undefined)
    user.fail("client-key", "missing beside client-certificate");
  if (clientKey !== undefined && clientCertificate === undefined)
    user.fail("client-certificate", "missing beside client-key");
  const token = user.text("token").trim();
  const tokenFile = absolute(user.text("tokenFile"), base);
  const name = user.text("username");
  if (name !== "" && (token !== "" || tokenFile !== ""))
    user.fail("username", "a token is given too: remove one of them");
  if (user.get("auth-provider") !== undefined)
    user.fail("auth-provider", "was removed from Kubernetes: use exec instead");
  const plugin = user.mapping("exec");
  return {
    clientCertificate,
    clientKey,
    token,
    tokenFile,
    basic: name === "" ? undefined : { user: name, password: user.text("password") },
    exec: plugin === undefined ? undefined : execPlugin(plugin, cluster, base),
    impersonate: impersonation(user),
  };
}

/** fetch joins repeated headers with a comma, which the API server does not split: more than one value cannot be sent. */
function impersonation(user: Fields): Impersonation {
  const name = user.text("as");
  const groups = user.texts("as-groups");
  const fields = user.mapping("as-user-extra");
  const extra = (fields?.names() ?? []).map((key) => [key, fields?.texts(key) ?? []] as const);
  if (name === "" && (groups.length > 0 || extra.length > 0))
    user.fail("as", "not set, but as-groups or as-user-extra are");
  if (groups.length > 1) user.fail("as-groups", "only one group is supported");
  if (extra.some(([, values]) => values.length > 1)) user.fail("as-user-extra", "only one value a key is supported");
  return { user: name, uid: user.text("as-uid"), groups, extra: Object.fromEntries(extra) };
}

function execPlugin(plugin: Fields, cluster: Fields, base: string): ExecPlugin {
  const apiVersion = plugin.text("apiVersion");
  if (apiVersion !== "client.authentication.k8s.io/v1" && apiVersion !== "client.authentication.k8s.io/v1beta1") {
    return plugin.fail(
      "apiVersion",
      `${JSON.stringify(apiVersion)}: allowed are client.authentication.k8s.io/v1 and …/v1beta1`,
    );
  }
  const command = plugin.text("command");
  if (command === "") plugin.fail("command", "not set: name the program to run");
  const mode = plugin.text("interactiveMode");
  if (mode === "Always") plugin.fail("interactiveMode", "Always needs a terminal, which kube-proxy has not");
  if (!["", "Never", "IfAvailable"].includes(mode))
    plugin.fail("interactiveMode", `${mode}: allowed are Never and IfAvailable`);
  const env = plugin.mappings("env").map((entry) => [entry.text("name"), entry.text("value")] as const);
  const extension = cluster
    .mappings("extensions")
    .find((one) => one.text("name") === "client.authentication.k8s.io/exec");
  return {
    apiVersion,
    command: command.includes("/") ? absolute(command, base) : command,
    args: plugin.texts("args"),
    env: Object.fromEntries(env),
    provideClusterInfo: plugin.flag("provideClusterInfo"),
    installHint: plugin.text("installHint"),
    clusterConfig: extension?.get("extension"),
  };
}

/** `name-data` (base64) wins over the file `name`. */
function secret(fields: Fields, name: string, base: string): Secret | undefined {
  const data = fields.text(`${name}-data`).replace(/\s/g, "");
  if (data !== "") {
    if (!/^[A-Za-z0-9+/]+={0,2}$/.test(data)) fields.fail(`${name}-data`, "is not base64");
    return { kind: "inline", text: Buffer.from(data, "base64").toString() };
  }
  const path = fields.text(name);
  return path === "" ? undefined : { kind: "file", path: absolute(path, base) };
}

function absolute(path: string, base: string): string {
  return path === "" || isAbsolute(path) ? path : join(base, path);
}

function usesTls(access: ClusterAccess): boolean {
  return access.ca !== undefined || access.clientCertificate !== undefined || access.insecure;
}

function masterUrl(master: string, tls: boolean): string {
  const server = serverUrl(master, tls);
  if (server === undefined)
    throw new KubeconfigError("--master", "", `${JSON.stringify(master)} is not a URL like https://192.0.2.1:6443`);
  return server;
}
