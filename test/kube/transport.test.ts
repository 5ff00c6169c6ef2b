/** The transport over real TLS: client certificates, tokens, rotation, exec plugins, and errors that say what to do. */
import { afterEach, describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { ApiError } from "../../src/kube/api-error.ts";
import { anonymousAccess, type ClusterAccess, KubeconfigError } from "../../src/kube/cluster-access.ts";
import { parseKubeconfig } from "../../src/kube/kubeconfig.ts";
import { type RequestReport, Transport } from "../../src/kube/transport.ts";
import { type Authority, clientCertificate, makeAuthority, serverCertificate } from "../api/certificates.ts";
import { type ApiServer, type ApiServerOptions, startApiServer } from "../api/server.ts";
import { recordingLog, until } from "./recorder.ts";

const never = new AbortController().signal;
const authority = makeAuthority();
const serverPair = serverCertificate(authority);
let servers: { stop(): unknown }[] = [];

function serve(options: ApiServerOptions = {}): ApiServer {
  const server = startApiServer({ tls: serverPair, ...options });
  server.setNode("n1");
  servers.push(server);
  return server;
}

afterEach(async () => {
  for (const server of servers) await server.stop();
  servers = [];
});

function transport(access: ClusterAccess, onRequest?: (report: RequestReport) => void) {
  const recorder = recordingLog();
  const options = { log: recorder.log, userAgent: "kube-proxy-test", qps: -1, burst: 1, timeoutMs: 3000 };
  return { ...recorder, transport: new Transport(access, { ...options, ...(onRequest ? { onRequest } : {}) }) };
}

function fileAccess(server: ApiServer, ca: Authority = authority): ClusterAccess {
  return { ...anonymousAccess(server.url, "/k"), ca: { kind: "inline", text: ca.cert } };
}

const node = (from: Transport) =>
  from.request({ verb: "get", resource: "nodes", path: "/api/v1/nodes/n1", signal: never }) as Promise<{
    kind: string;
  }>;

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    expect(error instanceof ApiError || error instanceof KubeconfigError).toBe(true);
    return (error as Error).message;
  }
  throw new Error("no error");
}

function temporary(): string {
  return mkdtempSync("/tmp/kp-transport-");
}

test("a kubeconfig with CA and client certificate, against a server that asks for one", async () => {
  const server = serve({ clientCA: authority.cert });
  const client = clientCertificate(authority, "system:kube-proxy");
  const access = parseKubeconfig(server.kubeconfig({ ca: authority.cert, client }), "/k");
  expect((await node(transport(access).transport)).kind).toBe("Node");
  const stranger = clientCertificate(makeAuthority("other"), "x");
  const bad = parseKubeconfig(server.kubeconfig({ ca: authority.cert, client: stranger }), "/k");
  expect(await failure(node(transport(bad).transport))).toContain("cannot get nodes at https://127.0.0.1");
});

test("a token file is read again for every request: the old token is refused, the new one works", async () => {
  const file = `${temporary()}/token`;
  writeFileSync(file, "one\n");
  const server = serve({ tokens: ["one"] });
  const { transport: client } = transport({ ...fileAccess(server), tokenFile: file });
  expect((await node(client)).kind).toBe("Node");
  server.setTokens(["two"]);
  expect(await failure(node(client))).toContain("401 Unauthorized");
  writeFileSync(`${file}.new`, "two\n");
  renameSync(`${file}.new`, file);
  expect((await node(client)).kind).toBe("Node");
});

test("client certificates and CA on disk are rotated; half a rotation keeps the old pair", async () => {
  const directory = temporary();
  const [cert, key, ca] = [`${directory}/c.crt`, `${directory}/c.key`, `${directory}/ca.crt`];
  const next = makeAuthority("next");
  const pair = clientCertificate(authority, "one");
  writeFileSync(cert, pair.cert);
  writeFileSync(key, pair.key);
  writeFileSync(ca, authority.cert);
  const server = serve({ clientCA: authority.cert });
  const { transport: client, text } = transport({
    ...anonymousAccess(server.url, "/k"),
    ca: { kind: "file", path: ca },
    clientCertificate: { kind: "file", path: cert },
    clientKey: { kind: "file", path: key },
  });
  await node(client);
  const version = await client.tlsVersion();
  const fresh = clientCertificate(next, "two");
  writeFileSync(cert, fresh.cert);
  await node(client);
  expect(text()).toContain("client-key: does not belong to the client-certificate");
  expect(await client.tlsVersion()).toBe(version);
  writeFileSync(key, fresh.key);
  writeFileSync(ca, `${authority.cert}${next.cert}`);
  await server.restart({ tls: serverCertificate(next), clientCA: next.cert });
  await node(client);
  expect(await client.tlsVersion()).toBeGreaterThan(version);
});

test("an exec plugin is run once, again after 401, and given the cluster", async () => {
  const directory = temporary();
  const script = `${directory}/plugin`;
  const answer =
    '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"\'$(cat token)\'"}}';
  writeFileSync(`${directory}/token`, "one");
  writeFileSync(
    script,
    `#!/bin/sh\ncd ${directory}\necho run >> runs\nprintf %s "$KUBERNETES_EXEC_INFO" > info\necho '${answer}'\n`,
  );
  chmodSync(script, 0o755);
  const server = serve({ tokens: ["one"] });
  const { transport: client } = transport({
    ...fileAccess(server),
    exec: {
      apiVersion: "client.authentication.k8s.io/v1",
      command: script,
      args: [],
      env: {},
      provideClusterInfo: true,
      installHint: "",
      clusterConfig: undefined,
    },
  });
  const runs = async () => (await Bun.file(`${directory}/runs`).text()).split("\n").length - 1;
  await Promise.all([node(client), node(client)]);
  await node(client);
  expect(await runs()).toBe(1);
  const info = JSON.parse(await Bun.file(`${directory}/info`).text());
  expect(info.spec).toEqual({
    cluster: { server: server.url, "certificate-authority-data": btoa(authority.cert) },
    interactive: false,
  });
  writeFileSync(`${directory}/token`, "two");
  server.setTokens(["two"]);
  await node(client);
  expect(await runs()).toBe(2);
  writeFileSync(script, "#!/bin/sh\necho cannot log in >&2\nexit 3\n");
  server.setTokens(["three"]);
  expect(await failure(node(client))).toBe(`/k: exec command ${script}: exit code 3: cannot log in`);
});

test("basic auth, impersonation and user agent are sent; redirects are not followed", async () => {
  const server = serve({ basic: ["me:secret"] });
  const { transport: client } = transport({
    ...fileAccess(server),
    basic: { user: "me", password: "secret" },
    impersonate: { user: "boss", uid: "7", groups: ["g"], extra: { Why: ["x"] } },
  });
  await node(client);
  expect(server.requests.at(-1)?.headers).toMatchObject({
    "user-agent": "kube-proxy-test",
    "impersonate-user": "boss",
    "impersonate-uid": "7",
    "impersonate-group": "g",
    "impersonate-extra-why": "x",
  });
});

describe("errors, one line each", () => {
  test("nobody listens", async () => {
    const { transport: client } = transport(anonymousAccess("http://127.0.0.1:1", "/k"));
    expect(await failure(node(client))).toBe(
      "cannot get nodes at http://127.0.0.1:1: the connection is refused: does the API server run there?",
    );
  });

  test("another CA, another name, even when the environment says not to verify", async () => {
    const server = serve();
    const { transport: wrongCA } = transport(fileAccess(server, makeAuthority("other")));
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      expect(await failure(node(wrongCA))).toContain("certificate is not signed by the CA given");
      const { transport: wrongName } = transport({ ...fileAccess(server), serverName: "example.org" });
      expect(await failure(node(wrongName))).toContain("set tls-server-name");
    } finally {
      delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    }
    const { transport: insecure } = transport({ ...anonymousAccess(server.url, "/k"), insecure: true });
    expect((await node(insecure)).kind).toBe("Node");
    const { transport: named } = transport({ ...fileAccess(server), serverName: "localhost" });
    expect((await node(named)).kind).toBe("Node");
  });

  test("a bad PEM is named by file and field before Bun sees it", async () => {
    const access = { ...anonymousAccess("https://127.0.0.1:1", "/k"), ca: { kind: "inline", text: "junk" } as const };
    expect(await failure(node(transport(access).transport))).toBe(
      "/k: certificate-authority: holds no PEM certificate",
    );
    const missing = { ...access, ca: { kind: "file", path: "/nonexistent/ca" } as const };
    expect(await failure(node(transport(missing).transport))).toBe(
      "/k: certificate-authority: cannot read /nonexistent/ca: no such file",
    );
  });

  test("403 says verb, resource and right; other statuses the server's words; HTML is no API", async () => {
    const server = serve();
    server.forbid("get", "nodes");
    const { transport: client } = transport(fileAccess(server));
    expect(await failure(node(client))).toContain('403 Forbidden: nodes is forbidden: User "test" cannot get resource');
    expect(await failure(node(client))).toContain(
      'allow "get" on "nodes", e.g. by the ClusterRole system:node-proxier',
    );
    server.allow("get", "nodes");
    server.fault({ fault: { kind: "status", code: 500 } });
    expect(await failure(node(client))).toContain("500 InternalError: asked for by the test");
    server.fault({ fault: { kind: "content-type" } });
    expect(await failure(node(client))).toContain("the answer is text/html instead of JSON");
    server.fault({ fault: { kind: "half-line" } });
    expect(await failure(node(client))).toContain("the answer is not JSON");
  });

  test("a server that accepts and says nothing", async () => {
    const server = serve();
    server.fault({ fault: { kind: "stall" } });
    const { transport: client } = transport(fileAccess(server));
    const request = { verb: "get", resource: "nodes", path: "/api/v1/nodes/n1", signal: never, timeoutMs: 50 } as const;
    expect(await failure(client.request(request))).toContain("no answer in time");
    // not even a TLS handshake
    const mute = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
    servers.push({ stop: () => mute.stop(true) });
    const { transport: handshake } = transport(anonymousAccess(`https://127.0.0.1:${mute.port}`, "/k"));
    expect(await failure(handshake.request({ ...request, timeoutMs: 100 }))).toContain("no answer in time");
  });
});

test("every request is reported for metrics; the last contact is known", async () => {
  const server = serve();
  const reports: RequestReport[] = [];
  const { transport: client } = transport(fileAccess(server), (report) => reports.push(report));
  expect(client.lastContact).toBe(0);
  await node(client);
  expect(client.lastContact).toBeGreaterThan(0);
  server.fault({ fault: { kind: "status", code: 503 } });
  await failure(node(client));
  await server.stop();
  await failure(node(client));
  const host = `127.0.0.1:${server.port}`;
  expect(reports.map(({ method, verb, host, code }) => ({ method, verb, host, code }))).toEqual([
    { method: "GET", verb: "get", host, code: "200" },
    { method: "GET", verb: "get", host, code: "503" },
    { method: "GET", verb: "get", host, code: "<error>" },
  ]);
  expect(reports[0]?.responseBytes).toBeGreaterThan(100);
});

test("qps and burst are respected, the wait is reported", async () => {
  const server = serve();
  const reports: RequestReport[] = [];
  const client = new Transport(fileAccess(server), {
    log: recordingLog().log,
    userAgent: "x",
    qps: 20,
    burst: 2,
    onRequest: (report) => reports.push(report),
  });
  await Promise.all([node(client), node(client), node(client), node(client)]);
  const waits = reports.map((report) => Math.round(report.throttledSeconds * 100) / 100).sort();
  expect(waits.slice(0, 2)).toEqual([0, 0]);
  expect(waits.at(-1)).toBeGreaterThan(0.05);
});

test("an HTTP proxy is used, also for loopback, only when the kubeconfig says so", async () => {
  const server = serve();
  const seen: string[] = [];
  const proxy = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket, data) {
        seen.push(data.toString().split("\r\n")[0] ?? "");
        socket.end("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
      },
    },
  });
  servers.push({ stop: () => proxy.stop(true) });
  process.env["HTTPS_PROXY"] = "http://127.0.0.1:1";
  try {
    expect((await node(transport(fileAccess(server)).transport)).kind).toBe("Node");
  } finally {
    delete process.env["HTTPS_PROXY"];
  }
  await failure(node(transport({ ...fileAccess(server), proxy: `http://127.0.0.1:${proxy.port}` }).transport));
  await until("the proxy was asked", () => seen.length > 0);
  expect(seen[0]).toBe(`CONNECT 127.0.0.1:${server.port} HTTP/1.1`);
});
