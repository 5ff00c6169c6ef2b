/** Runs a kubeconfig's exec credential plugin and keeps what it answered until that expires. */
import { type ClusterAccess, type ExecPlugin, KubeconfigError } from "./cluster-access.ts";

export interface ExecCredential {
  /** Empty: none. */
  readonly token: string;
  readonly cert: string;
  readonly key: string;
  /** Milliseconds since the epoch; infinite when the plugin sets none. */
  readonly expires: number;
}

/** A plugin that hangs must not hang the proxy. */
const timeoutMs = 60_000;

/** Runs the plugin once. `ca`: PEM for `provideClusterInfo`. Throws KubeconfigError. */
export async function runExecPlugin(plugin: ExecPlugin, access: ClusterAccess, ca: string): Promise<ExecCredential> {
  const fail = (message: string, cause?: unknown): never => {
    throw new KubeconfigError(access.source, `exec command ${plugin.command}`, message, { cause });
  };
  const stdout = await run(plugin, execInfo(plugin, access, ca), fail);
  let answer: unknown;
  try {
    answer = JSON.parse(stdout);
  } catch (cause) {
    return fail("did not print JSON", cause);
  }
  const credential = answer as { kind?: unknown; apiVersion?: unknown; status?: Record<string, unknown> };
  if (credential?.kind !== "ExecCredential" || credential.apiVersion !== plugin.apiVersion) {
    fail(`did not print an ExecCredential of ${plugin.apiVersion}`);
  }
  const text = (name: string): string => {
    const value = credential.status?.[name];
    return typeof value === "string" ? value : "";
  };
  const [token, cert, key] = [text("token"), text("clientCertificateData"), text("clientKeyData")];
  if (token === "" && (cert === "" || key === "")) fail("gave neither a token nor a client certificate with its key");
  const expires = Date.parse(text("expirationTimestamp"));
  return { token, cert, key, expires: Number.isFinite(expires) ? expires : Number.POSITIVE_INFINITY };
}

// --- internal ---

async function run(
  plugin: ExecPlugin,
  info: string,
  fail: (message: string, cause?: unknown) => never,
): Promise<string> {
  const start = () =>
    Bun.spawn([plugin.command, ...plugin.args], {
      env: { ...process.env, ...plugin.env, KUBERNETES_EXEC_INFO: info },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
  let child: ReturnType<typeof start>;
  try {
    child = start();
  } catch (cause) {
    return fail(`cannot be started${plugin.installHint === "" ? "" : `; ${plugin.installHint.trim()}`}`, cause);
  }
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (child.signalCode === "SIGKILL") return fail(`gave no answer within ${timeoutMs / 1000} s`);
  if (code !== 0) return fail(`exit code ${code}: ${stderr.trim().split("\n").at(-1)?.slice(0, 300) ?? ""}`);
  return stdout;
}

/** The KUBERNETES_EXEC_INFO that client-go gives. */
function execInfo(plugin: ExecPlugin, access: ClusterAccess, ca: string): string {
  const cluster = {
    server: access.server,
    ...(access.serverName === "" ? {} : { "tls-server-name": access.serverName }),
    ...(access.insecure ? { "insecure-skip-tls-verify": true } : {}),
    ...(ca === "" ? {} : { "certificate-authority-data": Buffer.from(ca).toString("base64") }),
    ...(access.proxy === "" ? {} : { "proxy-url": access.proxy }),
    ...(plugin.clusterConfig === undefined ? {} : { config: plugin.clusterConfig }),
  };
  const spec = { ...(plugin.provideClusterInfo ? { cluster } : {}), interactive: false };
  return JSON.stringify({ kind: "ExecCredential", apiVersion: plugin.apiVersion, spec });
}
