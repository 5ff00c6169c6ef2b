/** Kubeconfigs by client-go's rules: what is read, and the one line that every mistake gets. */
import { describe, expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { KubeconfigError } from "../../src/kube/cluster-access.ts";
import { inClusterAccess } from "../../src/kube/in-cluster.ts";
import { loadAccess, parseKubeconfig } from "../../src/kube/kubeconfig.ts";

/** A kubeconfig with these lines in the cluster and in the user. */
function config(cluster: string, user: string, rest = ""): string {
  const indent = (text: string) => text.replaceAll("\n", "\n    ");
  return `apiVersion: v1
kind: Config
current-context: c
${rest}contexts:
- name: c
  context: {cluster: k, user: u}
- name: other
  context: {cluster: gone, user: u}
clusters:
- name: k
  cluster:
    ${indent(cluster)}
users:
- name: u
  user:
    ${indent(user)}
`;
}

const parse = (cluster: string, user = "{}") => parseKubeconfig(config(cluster, user), "/etc/kp/kubeconfig");

function errorOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(KubeconfigError);
    return (error as Error).message;
  }
  throw new Error("no error");
}

describe("what is read", () => {
  test("kubeadm's form: CA file and tokenFile", () => {
    const access = parse(
      "server: https://10.0.0.1:6443/\ncertificate-authority: /var/run/ca.crt",
      "tokenFile: /var/run/token",
    );
    expect(access).toMatchObject({
      server: "https://10.0.0.1:6443",
      ca: { kind: "file", path: "/var/run/ca.crt" },
      tokenFile: "/var/run/token",
      insecure: false,
    });
  });

  test("data wins over files, relative paths are resolved to the kubeconfig's folder", () => {
    const access = parse(
      `server: https://a\ncertificate-authority: x.crt\ncertificate-authority-data: ${btoa("PEM")}`,
      "client-certificate: c.crt\nclient-key: ../c.key\ntokenFile: t",
    );
    expect(access.ca).toEqual({ kind: "inline", text: "PEM" });
    expect(access.clientCertificate).toEqual({ kind: "file", path: "/etc/kp/c.crt" });
    expect(access.clientKey).toEqual({ kind: "file", path: "/etc/c.key" });
    expect(access.tokenFile).toBe("/etc/kp/t");
  });

  test("everything else of cluster and user", () => {
    const access = parse(
      "server: https://a:1/prefix/\ntls-server-name: real\nproxy-url: http://p:3128\ninsecure-skip-tls-verify: true",
      "username: me\npassword: secret\nas: boss\nas-uid: '7'\nas-groups: [g]\nas-user-extra: {why: [because]}",
    );
    expect(access).toMatchObject({
      server: "https://a:1/prefix",
      serverName: "real",
      proxy: "http://p:3128",
      insecure: true,
      basic: { user: "me", password: "secret" },
      impersonate: { user: "boss", uid: "7", groups: ["g"], extra: { why: ["because"] } },
    });
  });

  test("exec plugins", () => {
    const access = parse(
      "server: https://a\nextensions:\n- name: client.authentication.k8s.io/exec\n  extension: {audience: x}",
      `exec:
  apiVersion: client.authentication.k8s.io/v1
  command: ./bin/get-token
  args: [a, b]
  env: [{name: X, value: y}]
  interactiveMode: Never
  provideClusterInfo: true`,
    );
    expect(access.exec).toEqual({
      apiVersion: "client.authentication.k8s.io/v1",
      command: "/etc/kp/bin/get-token",
      args: ["a", "b"],
      env: { X: "y" },
      provideClusterInfo: true,
      installHint: "",
      clusterConfig: { audience: "x" },
    });
  });

  test.each([
    ["10.0.0.1:6443", "http://10.0.0.1:6443"],
    ["https://[fd00::1]:6443", "https://[fd00::1]:6443"],
  ])("server %s", (given, server) => {
    expect(parse(`server: "${given}"`).server).toBe(server);
  });

  test("a server without scheme is https where a CA is given", () => {
    expect(parse(`server: 10.0.0.1:6443\ncertificate-authority: x`).server).toBe("https://10.0.0.1:6443");
  });

  test("--master overrides the server and drops tls-server-name; alone it is enough", () => {
    const file = `${mkdtempSync("/tmp/kp-kubeconfig-")}/k`;
    writeFileSync(file, config("server: https://a\ntls-server-name: x\ncertificate-authority: ca", "token: t"));
    expect(loadAccess(file, "b:6443")).toMatchObject({ server: "https://b:6443", serverName: "", token: "t" });
    expect(loadAccess("", "http://c:8080")).toMatchObject({ server: "http://c:8080", token: "" });
  });

  test("in a pod", () => {
    const directory = mkdtempSync("/tmp/kp-sa-");
    writeFileSync(`${directory}/token`, "t");
    writeFileSync(`${directory}/ca.crt`, "c");
    const env = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };
    expect(inClusterAccess(env, directory)).toMatchObject({
      server: "https://[fd00::1]:443",
      tokenFile: `${directory}/token`,
      ca: { kind: "file", path: `${directory}/ca.crt` },
    });
  });
});

describe("mistakes: file, field, what is wrong", () => {
  const at = "/etc/kp/kubeconfig: ";
  test.each([
    [
      "server: https://a\nproxy-url: socks5://p",
      "{}",
      `${at}clusters[0].cluster.proxy-url: "socks5://p": only http://`,
    ],
    ["server: ftp://a", "{}", `${at}clusters[0].cluster.server: "ftp://a" is not a URL`],
    ["server: 7", "{}", `${at}clusters[0].cluster.server: must be text, is the number 7`],
    ["certificate-authority: x", "{}", `${at}clusters[0].cluster.server: "" is not a URL`],
    ["server: https://a\ncertificate-authority-data: '&&'", "{}", "certificate-authority-data: is not base64"],
    [
      "server: https://a\ncertificate-authority: x\ninsecure-skip-tls-verify: true",
      "{}",
      "a certificate authority is given too",
    ],
    ["server: https://a", "client-certificate: x", "users[0].user.client-key: missing beside client-certificate"],
    ["server: https://a", "username: x\ntoken: y", "users[0].user.username: a token is given too"],
    ["server: https://a", "auth-provider: {name: gcp}", "users[0].user.auth-provider: was removed"],
    ["server: https://a", "exec: {apiVersion: v7, command: x}", 'users[0].user.exec.apiVersion: "v7": allowed are'],
    ["server: https://a", "exec: {apiVersion: client.authentication.k8s.io/v1}", "users[0].user.exec.command: not set"],
    ["server: https://a", "as-groups: [a]", "users[0].user.as: not set"],
  ])("%j %j", (cluster, user, expected) => {
    expect(errorOf(() => parse(cluster, user))).toContain(expected);
  });

  test.each([
    ["a: [", "/k:1:5: not valid YAML"],
    ["", "/k: the kubeconfig is empty"],
    ["[]", "/k: must be a mapping, is a list"],
    ["kind: Pod", "/k: kind: Pod is no kubeconfig"],
    ["{}", "/k: current-context: not set; allowed: none (contexts is empty)"],
    [
      config("server: https://a", "{}").replace("current-context: c", "current-context: d"),
      'contexts: has no entry "d", which current-context names; there are: c, other',
    ],
    [
      config("server: https://a", "{}").replace("current-context: c", "current-context: other"),
      'clusters: has no entry "gone", which context other names; there are: k',
    ],
  ])("%j", (text, expected) => {
    expect(errorOf(() => parseKubeconfig(text, "/k"))).toContain(expected);
  });

  test("a file that is not there, and being outside of a pod", () => {
    expect(errorOf(() => loadAccess("/nonexistent/k", ""))).toBe(
      "/nonexistent/k: cannot read the kubeconfig: no such file",
    );
    expect(errorOf(() => inClusterAccess({}))).toContain("neither --kubeconfig nor --master");
    const env = { KUBERNETES_SERVICE_HOST: "10.0.0.1", KUBERNETES_SERVICE_PORT: "443" };
    expect(errorOf(() => inClusterAccess(env, "/nonexistent"))).toContain("/nonexistent/token: no such file");
  });
});
