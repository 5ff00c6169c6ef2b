/**
 * An API server of our own on loopback for tests: objects, LIST, WATCH, WatchList, TLS, tokens, and faults on demand.
 * `startApiServer()` in a test, or `bun test/api/main.ts` as a process of its own.
 */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { controlHandler } from "./control.ts";
import { type FaultRule, Faults, type LiveFault } from "./faults.ts";
import { resourceOf, targetOf } from "./kinds.ts";
import { type ApiObject, keyOf, ObjectStore } from "./object-store.ts";
import { answer, type Served, verbOf } from "./requests.ts";
import { json, statusResponse } from "./status.ts";
import type { WatchStream } from "./watch-stream.ts";

export interface ApiServerOptions {
  /** PEM texts; absent: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** PEM of the CA of client certificates: the handshake then requires one (Bun does not show it to the handler). */
  readonly clientCA?: string;
  /** Bearer tokens that are let in; absent: everybody is. */
  readonly tokens?: readonly string[];
  /** `user:password` pairs for basic auth, beside tokens. */
  readonly basic?: readonly string[];
  /** Default 0: any free one. */
  readonly port?: number;
  /** Default 127.0.0.1. */
  readonly listen?: string;
  /** Default 60,000 ms. */
  readonly bookmarkMs?: number;
  /** False: WatchList refused with 422; `ignored`: parameter unknown, as before Kubernetes 1.27. */
  readonly watchList?: boolean | "ignored";
  readonly objects?: readonly ApiObject[];
  /** Of another server: two API servers of one cluster. */
  readonly store?: ObjectStore;
}

export interface RequestRecord {
  readonly method: string;
  readonly verb: string;
  /** Plural resource name; empty for non-resource paths. */
  readonly resource: string;
  readonly path: string;
  /** Decoded query. */
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  /** 0 until answered. */
  status: number;
}

export interface KubeconfigOptions {
  /** PEM of the server's CA. */
  readonly ca?: string;
  readonly token?: string;
  readonly tokenFile?: string;
  readonly client?: { readonly cert: string; readonly key: string };
}

export class ApiServer {
  readonly store: ObjectStore;
  readonly requests: RequestRecord[] = [];
  readonly faults = new Faults();
  readonly #served: Served;
  #options: ApiServerOptions;
  #server: Bun.Server<undefined>;
  readonly #port: number;
  readonly #forbidden = new Set<string>();

  constructor(options: ApiServerOptions) {
    this.#options = options;
    this.store = options.store ?? new ObjectStore();
    this.#served = {
      store: this.store,
      faults: this.faults,
      watches: new Set<WatchStream>(),
      bookmarkMs: options.bookmarkMs ?? 60_000,
      watchList: options.watchList ?? true,
    };
    for (const object of options.objects ?? []) this.apply(object);
    this.#server = this.#listen(options.port ?? 0);
    this.#port = this.#server.port ?? 0;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    const host = this.#options.listen ?? "127.0.0.1";
    const scheme = this.#options.tls ? "https" : "http";
    return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${this.port}`;
  }

  get openWatches(): number {
    return this.#served.watches.size;
  }

  /** Creates or replaces one object, a List, or an array of them. */
  apply(object: ApiObject | readonly ApiObject[]): void {
    if (Array.isArray(object)) for (const one of object as readonly ApiObject[]) this.apply(one);
    else {
      const one = object as ApiObject;
      if (Array.isArray(one["items"])) this.apply(one["items"] as readonly ApiObject[]);
      else this.store.apply(one);
    }
  }

  /** False when it was not there. Namespace is ignored for Nodes and ServiceCIDRs. */
  remove(kind: string, namespace: string, name: string): boolean {
    const resource = resourceOf(kind);
    return this.store.remove(resource, keyOf(resource.namespaced ? namespace : undefined, name));
  }

  /** Creates or replaces a Node from the parts tests care for. */
  setNode(
    name: string,
    parts: {
      addresses?: readonly string[];
      podCIDRs?: readonly string[];
      labels?: Record<string, string>;
      taints?: unknown[];
    } = {},
  ): void {
    this.apply({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name, labels: { "kubernetes.io/hostname": name, ...parts.labels } },
      spec: { podCIDR: parts.podCIDRs?.[0], podCIDRs: parts.podCIDRs, taints: parts.taints },
      status: { addresses: (parts.addresses ?? ["192.0.2.1"]).map((address) => ({ type: "InternalIP", address })) },
    });
  }

  /** Events recorded through either events API. */
  events(): readonly ApiObject[] {
    return [resourceOf("Event", "v1"), resourceOf("Event", "events.k8s.io/v1")].flatMap((resource) =>
      this.store.list(resource).map((one) => one.object),
    );
  }

  /** A fault for the next matching requests. */
  fault(rule: FaultRule): void {
    this.faults.next(rule);
  }

  /** Makes open watches (of one resource, or all) misbehave now. */
  liveFault(kind: LiveFault, resource?: string): void {
    for (const watch of [...this.#served.watches]) {
      if (resource === undefined || watch.resource.plural === resource) watch.fault(kind);
    }
  }

  /** 403 for a verb on a resource, e.g. `forbid("list", "services")`. */
  forbid(verb: string, resource: string): void {
    this.#forbidden.add(`${verb} ${resource}`);
  }

  allow(verb: string, resource: string): void {
    this.#forbidden.delete(`${verb} ${resource}`);
  }

  setTokens(tokens: readonly string[] | undefined): void {
    const { tokens: _, ...rest } = this.#options;
    this.#options = tokens === undefined ? rest : { ...rest, tokens };
  }

  /** Cuts every connection and listens again on the same port, with the same objects; options given replace the old ones. */
  async restart(changes: Partial<Pick<ApiServerOptions, "tls" | "clientCA" | "tokens">> = {}): Promise<void> {
    await this.#server.stop(true);
    this.#served.watches.clear();
    this.#options = { ...this.#options, ...changes };
    this.#server = this.#listen(this.#port);
  }

  /** Cuts every connection and stops listening; `restart` brings it back. */
  async stop(): Promise<void> {
    this.faults.clear();
    for (const watch of [...this.#served.watches]) watch.end();
    await this.#server.stop(true);
  }

  /** Text of a kubeconfig for this server. */
  kubeconfig(options: KubeconfigOptions = {}): string {
    const user: Record<string, string> = {};
    if (options.token !== undefined) user["token"] = options.token;
    if (options.tokenFile !== undefined) user["tokenFile"] = options.tokenFile;
    if (options.client !== undefined) {
      user["client-certificate-data"] = btoa(options.client.cert);
      user["client-key-data"] = btoa(options.client.key);
    }
    const ca = options.ca === undefined ? {} : { "certificate-authority-data": btoa(options.ca) };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      clusters: [{ name: "test", cluster: { server: this.url, ...ca } }],
      users: [{ name: "test", user }],
      contexts: [{ name: "test", context: { cluster: "test", user: "test" } }],
      "current-context": "test",
    };
    return `${JSON.stringify(config, undefined, 2)}\n`;
  }

  /** Writes the kubeconfig to `path` (default: a new temporary file) and returns the path. */
  writeKubeconfig(
    options: KubeconfigOptions = {},
    path = join(mkdtempSync(join(tmpdir(), "kp-api-")), "kubeconfig"),
  ): string {
    writeFileSync(path, this.kubeconfig(options), { mode: 0o600 });
    return path;
  }

  #listen(port: number): Bun.Server<undefined> {
    const { tls, clientCA, listen } = this.#options;
    const control = controlHandler(this);
    return Bun.serve({
      hostname: listen ?? "127.0.0.1",
      port,
      idleTimeout: 0,
      development: false,
      ...(tls === undefined
        ? {}
        : {
            tls: {
              ...tls,
              ...(clientCA === undefined ? {} : { ca: clientCA, requestCert: true, rejectUnauthorized: true }),
            },
          }),
      error: (error) => statusResponse(500, `fixture: ${error.message}`),
      fetch: (request) => {
        const url = new URL(request.url, "http://x");
        return url.pathname.startsWith("/_control/") ? control(request) : this.#handle(request, url);
      },
    });
  }

  async #handle(request: Request, url: URL): Promise<Response> {
    const target = targetOf(url.pathname);
    const verb = target === undefined ? "get" : verbOf(request.method, target, url.searchParams);
    const record: RequestRecord = {
      method: request.method,
      verb,
      resource: target?.resource.plural ?? "",
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: request.headers.toJSON(),
      status: 0,
    };
    this.requests.push(record);
    const body = await request.text();
    await this.faults.untilThawed();
    const response = await this.#route(record, target, url, body);
    record.status = response.status;
    return response;
  }

  async #route(record: RequestRecord, target: ReturnType<typeof targetOf>, url: URL, body: string): Promise<Response> {
    if (["/healthz", "/livez", "/readyz"].includes(url.pathname)) return new Response("ok");
    if (url.pathname === "/version") return json({ major: "1", minor: "37", gitVersion: "v1.37.0-fixture" });
    const { tokens, basic } = this.#options;
    if (tokens !== undefined || basic !== undefined) {
      const given = record.headers["authorization"] ?? "";
      const known = [
        ...(tokens ?? []).map((one) => `Bearer ${one}`),
        ...(basic ?? []).map((one) => `Basic ${btoa(one)}`),
      ];
      if (!known.includes(given)) return statusResponse(401, "Unauthorized");
    }
    if (target === undefined) return statusResponse(404, "the server could not find the requested resource");
    if (this.#forbidden.has(`${record.verb} ${record.resource}`)) {
      const message = `${record.resource} is forbidden: User "test" cannot ${record.verb} resource "${record.resource}" at the cluster scope`;
      return statusResponse(403, message);
    }
    return answer(this.#served, record.verb as ReturnType<typeof verbOf>, target, url.searchParams, body);
  }
}

export function startApiServer(options: ApiServerOptions = {}): ApiServer {
  return new ApiServer(options);
}
