/** How to reach one API server and as whom: what a kubeconfig, the in-cluster files or `--master` say, resolved but not read. */

/** PEM or token that is written in the kubeconfig, or in a file that is read again whenever it is needed. */
export type Secret =
  | { readonly kind: "inline"; readonly text: string }
  | { readonly kind: "file"; readonly path: string };

/** An exec credential plugin. */
export interface ExecPlugin {
  readonly apiVersion: "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1";
  /** A bare name is looked up in PATH. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly provideClusterInfo: boolean;
  readonly installHint: string;
  /** The cluster's `client.authentication.k8s.io/exec` extension, handed to the plugin. */
  readonly clusterConfig: unknown;
}

export interface Impersonation {
  /** Empty: none. */
  readonly user: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

export interface ClusterAccess {
  /** `scheme://host:port/path` without a trailing slash. */
  readonly server: string;
  /** What to name in messages: the kubeconfig's path, `the service account` or `--master`. */
  readonly source: string;
  /** Name to verify and to send as SNI; empty: the host of `server`. */
  readonly serverName: string;
  readonly insecure: boolean;
  readonly ca: Secret | undefined;
  readonly clientCertificate: Secret | undefined;
  readonly clientKey: Secret | undefined;
  /** http:// or https:// URL; empty: HTTPS_PROXY and the like of the environment. */
  readonly proxy: string;
  readonly token: string;
  /** Wins over `token` while it can be read. Empty: none. */
  readonly tokenFile: string;
  readonly basic: { readonly user: string; readonly password: string } | undefined;
  readonly exec: ExecPlugin | undefined;
  readonly impersonate: Impersonation;
}

/** The user's mistake in a kubeconfig or the files it names: one line that names file and field. Print it, exit 1. */
export class KubeconfigError extends Error {
  override readonly name = "KubeconfigError";
  readonly file: string;
  /** Path of the field, e.g. `users[0].user.exec.command`; empty: the file as a whole. */
  readonly field: string;

  constructor(file: string, field: string, message: string, options?: ErrorOptions) {
    super(`${file}: ${field === "" ? "" : `${field}: `}${message}`, options);
    this.file = file;
    this.field = field;
  }
}

/** Access to a server without any credentials (`--master` alone). */
export function anonymousAccess(server: string, source: string): ClusterAccess {
  return {
    server,
    source,
    serverName: "",
    insecure: false,
    ca: undefined,
    clientCertificate: undefined,
    clientKey: undefined,
    proxy: "",
    token: "",
    tokenFile: "",
    basic: undefined,
    exec: undefined,
    impersonate: { user: "", uid: "", groups: [], extra: {} },
  };
}

/** The server URL with scheme and without trailing slash; https is assumed where TLS is configured. Undefined: not a URL. */
export function serverUrl(text: string, tls: boolean): string | undefined {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `${tls ? "https" : "http"}://${text}`;
  const url = URL.parse(full);
  if (url === null || !["http:", "https:"].includes(url.protocol) || url.hostname === "") return undefined;
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, "")}`;
}
