/** The control plane of a lab: the API fixture and the proxy on node-1, and how to know that the proxy has caught up. */
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type ApiObject,
  clusterIP,
  clusterObjects,
  type Placed,
  placeServices,
  serviceObjects,
} from "../packets/objects.ts";
import type { Row } from "../packets/row.ts";
import type { Lab } from "./lab.ts";
import { type Started, startIn } from "./process.ts";
import { families, placeSpace } from "./topology.ts";

const root = join(import.meta.dir, "..", "..");
/** KUBE_PROXY_BINARY: another binary to hold against the table. */
export const proxyBinary = process.env["KUBE_PROXY_BINARY"] ?? join(root, "dist", "kube-proxy");

/** Ids of marker Services: far above those of rows. */
const firstMarker = 2500;

export class Cluster {
  readonly directory = mkdtempSync(join(tmpdir(), "kp-lab-"));
  readonly kubeconfig = join(this.directory, "kubeconfig");
  private readonly control = join(this.directory, "control");
  private api: Started | undefined;
  private proxy: Started | undefined;
  private proxyStarts = 0;
  private marker: Placed | undefined;
  private markers = 0;

  constructor(
    readonly lab: Lab,
    /** How long the proxy may take to program a change, ms. */
    readonly patience: number,
  ) {}

  /** Starts the API server with both Nodes in it. */
  async startApi(): Promise<void> {
    const arguments_ = ["--port", "6443", "--kubeconfig-out", this.kubeconfig, "--control-socket", this.control];
    const argv = [process.execPath, join(root, "test/api/main.ts"), ...arguments_];
    this.api = startIn(this.lab.space("node1"), argv, join(this.directory, "api.log"));
    const up = await this.lab.wire.until(
      () => existsSync(this.kubeconfig) && existsSync(this.control) && this.api?.output().includes("http") === true,
      15_000,
    );
    if (!up) {
      throw new Error(`the API fixture did not start: ${this.api.output()}`);
    }
    await this.apply(clusterObjects());
  }

  /** Starts the proxy and waits for its first complete sync. `iptables` chooses the variant it finds. */
  async startProxy(config: Readonly<Record<string, unknown>>, iptables: "nft" | "legacy" | undefined): Promise<void> {
    const file = join(this.directory, `config-${++this.proxyStarts}.yaml`);
    writeFileSync(file, JSON.stringify(config));
    const mounts = iptables === undefined ? [] : [`--bind ${this.alternatives(iptables)} /etc/alternatives`];
    const log = join(this.directory, `proxy-${this.proxyStarts}.log`);
    this.proxy = startIn(this.lab.space("node1"), [proxyBinary, "--config", file, "-v", "2"], log, mounts);
    await this.settle();
  }

  async stopProxy(): Promise<void> {
    await this.lab.during(this.proxy?.stop() ?? Promise.resolve());
    this.proxy = undefined;
  }

  proxyOutput(): string {
    return this.proxy?.output() ?? "";
  }

  async apply(objects: readonly ApiObject[]): Promise<void> {
    await this.post("apply", objects);
  }

  async remove(objects: readonly ApiObject[]): Promise<void> {
    for (const { kind, metadata } of objects) {
      await this.post("delete", { kind, name: metadata.name, namespace: metadata.namespace });
    }
  }

  /**
   * Waits until everything applied so far is programmed: a new Service and its slices, last in both watch streams,
   * must answer in both families.
   */
  async settle(): Promise<void> {
    const old = this.marker;
    const row: Row = {
      name: "marker",
      setting: "plain",
      services: [{ name: "marker", endpoints: ["d"] }],
      packets: [],
    };
    const id = firstMarker + (this.markers++ % 1000);
    const marker = placeServices([row], id).get(row)?.get("marker");
    if (marker === undefined) {
      throw new Error("no marker");
    }
    this.marker = marker;
    await this.apply(serviceObjects(marker));
    if (old !== undefined) {
      await this.remove(serviceObjects(old));
    }
    const end = performance.now() + this.patience;
    while (!(await this.answers(marker))) {
      const code = this.proxy?.exitCode();
      if (code !== undefined && code !== null) {
        throw new Error(`the proxy ended with exit code ${code}:\n${tail(this.proxyOutput())}`);
      }
      if (performance.now() > end) {
        throw new Error(`not programmed after ${this.patience} ms:\n${tail(this.proxyOutput())}`);
      }
      await this.lab.wire.until(() => false, 20);
    }
  }

  private async answers(marker: Placed): Promise<boolean> {
    const attempts = families.map((family) => ({
      namespace: this.lab.space(placeSpace("pod-a")),
      kind: "tcp" as const,
      ip: clusterIP(marker.id, family),
      port: 80,
      patience: 300,
    }));
    return (await this.lab.probe(attempts)).every((outcome) => outcome.kind === "answered");
  }

  /** Ends both processes and removes their files. */
  async end(): Promise<void> {
    await this.stopProxy();
    await this.lab.during(this.api?.stop() ?? Promise.resolve());
    rmSync(this.directory, { recursive: true, force: true });
  }

  private async post(action: string, body: unknown): Promise<void> {
    const answer = fetch(`http://lab/_control/${action}`, {
      method: "POST",
      body: JSON.stringify(body),
      unix: this.control,
    });
    const response = await this.lab.during(answer);
    if (!response.ok) {
      throw new Error(`${action}: ${response.status} ${await response.text()}`);
    }
  }

  /** A directory to lay over /etc/alternatives: the proxy takes its tools from fixed places, not from PATH. */
  private alternatives(variant: "nft" | "legacy"): string {
    const directory = join(this.directory, `alternatives-${variant}`);
    if (!existsSync(directory)) {
      mkdirSync(directory);
      for (const tool of ["iptables", "ip6tables"]) {
        for (const suffix of ["", "-save", "-restore"]) {
          symlinkSync(`/usr/sbin/${tool}-${variant}${suffix}`, join(directory, `${tool}${suffix}`));
        }
      }
    }
    return directory;
  }
}

function tail(text: string): string {
  return text.trimEnd().split("\n").slice(-15).join("\n");
}
