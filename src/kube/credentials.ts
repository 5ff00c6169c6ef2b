/** The TLS options and headers of the next request: files are read again each time, so rotated credentials just work. */
import { readFileSync } from "node:fs";
import type { Log } from "../model/log.ts";
import type { ClusterAccess } from "./cluster-access.ts";
import { type ExecCredential, runExecPlugin } from "./exec-credential.ts";
import { checkCertificates, checkKeyPair, readSecret } from "./pem.ts";

export interface TlsOptions {
  readonly rejectUnauthorized: boolean;
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly serverName?: string;
}

export interface Connection {
  readonly tls: TlsOptions;
  readonly headers: Readonly<Record<string, string>>;
  readonly proxy: Bun.FetchProxyOption | undefined;
  /** Changes when certificates or CA change, so that long streams on old ones can be replaced. */
  readonly tlsVersion: number;
}

export class Credentials {
  readonly #access: ClusterAccess;
  readonly #log: Log;
  #tls: TlsOptions | undefined;
  #tlsText = "";
  #tlsVersion = 0;
  #exec: ExecCredential | undefined;
  #running: Promise<ExecCredential> | undefined;
  #tlsComplaint = "";
  #tokenComplaint = "";

  constructor(access: ClusterAccess, log: Log) {
    this.#access = access;
    this.#log = log;
  }

  /** Throws KubeconfigError when a file or plugin fails and there is no earlier good state to go on with. */
  async get(): Promise<Connection> {
    const exec = await this.#execCredential();
    const tls = this.#tlsOptions(exec);
    return { tls, headers: this.#headers(exec), proxy: this.#proxy(), tlsVersion: this.#tlsVersion };
  }

  /** The server said 401: the plugin's answer is not trusted any longer. */
  rejected(): void {
    this.#exec = undefined;
  }

  async #execCredential(): Promise<ExecCredential | undefined> {
    const plugin = this.#access.exec;
    if (plugin === undefined) return undefined;
    if (this.#exec !== undefined && this.#exec.expires > Date.now()) return this.#exec;
    const { ca, source } = this.#access;
    const pem = ca === undefined ? "" : readSecret(ca, source, "certificate-authority");
    this.#running ??= runExecPlugin(plugin, this.#access, pem).finally(() => {
      this.#running = undefined;
    });
    this.#exec = await this.#running;
    return this.#exec;
  }

  /** Half-rotated files (new certificate, old key) do not break us: the last good set is kept meanwhile. */
  #tlsOptions(exec: ExecCredential | undefined): TlsOptions {
    try {
      const next = this.#readTls(exec);
      const text = JSON.stringify(next);
      if (text !== this.#tlsText) {
        this.#checkTls(next);
        this.#tls = next;
        this.#tlsText = text;
        this.#tlsVersion++;
      }
      this.#tlsComplaint = "";
      return this.#tls ?? next;
    } catch (error) {
      if (this.#tls === undefined) throw error;
      const message = error instanceof Error ? error.message : String(error);
      if (message !== this.#tlsComplaint) this.#log.warn("Keeping the previous certificates", { reason: message });
      this.#tlsComplaint = message;
      return this.#tls;
    }
  }

  #readTls(exec: ExecCredential | undefined): TlsOptions {
    const { ca, clientCertificate, clientKey, insecure, serverName, source } = this.#access;
    const cert = exec?.cert || (clientCertificate && readSecret(clientCertificate, source, "client-certificate"));
    const key = exec?.key || (clientKey && readSecret(clientKey, source, "client-key"));
    return {
      // NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment turns verification off unless this is passed
      rejectUnauthorized: !insecure,
      ...(ca === undefined ? {} : { ca: readSecret(ca, source, "certificate-authority") }),
      ...(cert && key ? { cert, key } : {}),
      ...(serverName === "" ? {} : { serverName }),
    };
  }

  #checkTls(tls: TlsOptions): void {
    const { source } = this.#access;
    if (tls.ca !== undefined) checkCertificates(tls.ca, source, "certificate-authority");
    if (tls.cert !== undefined && tls.key !== undefined) checkKeyPair(tls.cert, tls.key, source);
  }

  #headers(exec: ExecCredential | undefined): Record<string, string> {
    const { basic, impersonate } = this.#access;
    const headers: Record<string, string> = {};
    const token = exec?.token || this.#token();
    if (token !== "") headers["authorization"] = `Bearer ${token}`;
    else if (basic !== undefined) {
      headers["authorization"] = `Basic ${Buffer.from(`${basic.user}:${basic.password}`).toString("base64")}`;
    }
    if (impersonate.user !== "") headers["impersonate-user"] = impersonate.user;
    if (impersonate.uid !== "") headers["impersonate-uid"] = impersonate.uid;
    // at most one value each: the kubeconfig loader sees to that
    for (const group of impersonate.groups) headers["impersonate-group"] = group;
    for (const [name, values] of Object.entries(impersonate.extra)) {
      headers[`impersonate-extra-${encodeURIComponent(name).toLowerCase()}`] = values[0] ?? "";
    }
    return headers;
  }

  #token(): string {
    const { tokenFile, token, source } = this.#access;
    if (tokenFile === "") return token;
    try {
      const text = readFileSync(tokenFile, "utf8").trim();
      if (text !== "" && !/[^\x21-\x7e]/.test(text)) return text;
      this.#complain(`${tokenFile} (tokenFile of ${source}) is ${text === "" ? "empty" : "not one token"}`);
    } catch (error) {
      this.#complain(`cannot read ${tokenFile} (tokenFile of ${source}): ${(error as { code?: string }).code}`);
    }
    return token;
  }

  #complain(message: string): void {
    if (message !== this.#tokenComplaint) this.#log.warn("No usable token", { reason: message });
    this.#tokenComplaint = message;
  }

  #proxy(): Bun.FetchProxyOption | undefined {
    const { proxy, server } = this.#access;
    if (proxy !== "") return { url: proxy, respectNoProxy: false };
    const { hostname } = new URL(server);
    // Go never sends requests to the machine itself through a proxy; Bun does
    return hostname === "localhost" || hostname.startsWith("127.") || hostname === "[::1]" ? false : undefined;
  }
}
