/** A host of a recorded case, made in the network namespace that this process is in, and the contexts of the proxy on it. */
import { type Contexts, makeContexts, nodeIdentity } from "../../src/app/contexts.ts";
import { decodeConfig } from "../../src/config/decode.ts";
import { makeConfig } from "../../src/config/defaults.ts";
import { parseEndpointSlice } from "../../src/model/endpoint-slice-parse.ts";
import { parseNode } from "../../src/model/node-parse.ts";
import { parseService } from "../../src/model/service-parse.ts";
import type { ServiceInput, Snapshot } from "../../src/model/snapshot.ts";
import { type ApiObject, type Case, configText, nodeObject } from "../conformance/case-file.ts";

export function prepareHost({ host }: Case): void {
  run("ip", "link", "set", "lo", "up");
  const sysctls = { "net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1, ...host.sysctls };
  for (const [key, value] of Object.entries(sysctls)) run("sysctl", "-qw", `${key}=${value}`);
  for (const [i, [device, addresses]] of Object.entries(host.addrs).entries()) {
    run("ip", "link", "add", device, "type", "dummy");
    run("ip", "link", "set", device, "up");
    for (const address of addresses) run("ip", "addr", "add", address, "dev", device);
    if (i > 0) continue;
    run("ip", "route", "add", "default", "dev", device);
    if (addresses.some((a) => a.includes(":"))) run("ip", "-6", "route", "add", "default", "dev", device);
  }
  for (const command of host.commands ?? []) run("sh", "-c", command);
}

export function contextsOf(test: Case): Contexts {
  const config = makeConfig(decodeConfig("config.yaml", configText(test, "ipvs", "/nowhere")).settings);
  const node = parseNode(nodeObject(test.node)).value;
  const addresses = Object.values(test.host.addrs).flat();
  return makeContexts({
    config,
    nodeName: test.node.name,
    node,
    identity: nodeIdentity(node, config.bindAddress),
    supported: addresses.some((a) => a.includes(":")) ? ["IPv4", "IPv6"] : ["IPv4"],
    facts: { iptables: "legacy", randomFully: true, nfacct: false, tcpBeLiberal: false, kernel: [6, 1] },
    localAddresses: addresses.map((a) => a.slice(0, a.indexOf("/"))),
    gates: new Set(),
  });
}

/** The API's objects, applied and deleted as the steps say; Service and EndpointSlice only, with the proxy's selectors. */
export class Objects {
  readonly #objects = new Map<string, ApiObject>();
  #node: ApiObject;

  constructor(test: Case) {
    this.#node = nodeObject(test.node);
  }

  apply(object: ApiObject): void {
    if (object.kind === "Node") this.#node = object;
    this.#objects.set(keyOf(object), object);
  }

  remove(object: ApiObject): void {
    this.#objects.delete(keyOf(object));
  }

  get node(): ReturnType<typeof parseNode>["value"] {
    return parseNode(this.#node).value;
  }

  snapshot(): Snapshot {
    const of = (kind: string): readonly ApiObject[] => [...this.#objects.values()].filter((o) => o.kind === kind);
    const slices = of("EndpointSlice")
      .filter((o) => !("service.kubernetes.io/headless" in (labelsOf(o) ?? {})))
      .flatMap((o) => parseEndpointSlice(o).value ?? []);
    const services = new Map<string, ServiceInput>();
    for (const object of of("Service")) {
      const service = parseService(object).value;
      if (service === undefined) continue;
      const own = slices.filter((s) => s.serviceKey === service.key).sort((a, b) => (a.name < b.name ? -1 : 1));
      services.set(service.key, { service, slices: own });
    }
    return { services, node: this.node, serviceCIDRs: [] };
  }
}

// --- internal ---

function labelsOf(object: ApiObject): Readonly<Record<string, string>> | undefined {
  return (object.metadata as { labels?: Readonly<Record<string, string>> }).labels;
}

function keyOf({ kind, metadata }: ApiObject): string {
  return `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
}

export function run(...argv: readonly string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync([...argv]);
  if (exitCode !== 0) throw new Error(`${argv.join(" ")}: ${stderr.toString().trim()}`);
  return stdout.toString();
}
