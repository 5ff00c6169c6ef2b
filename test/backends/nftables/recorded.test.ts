/** Every recorded case, played through plan, desired and diff into a real kernel, and compared line by line. */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { makeContexts, nodeIdentity } from "../../../src/app/contexts.ts";
import { type NftState, nftables } from "../../../src/backends/nftables/index.ts";
import { decodeConfig } from "../../../src/config/decode.ts";
import { makeConfig } from "../../../src/config/defaults.ts";
import type { Context } from "../../../src/model/context.ts";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import { parseEndpointSlice } from "../../../src/model/endpoint-slice-parse.ts";
import type { FamilyName } from "../../../src/model/family.ts";
import { parseNode, parseServiceCIDR } from "../../../src/model/node-parse.ts";
import { makePlan } from "../../../src/model/planner.ts";
import { parseService } from "../../../src/model/service-parse.ts";
import type { ServiceInput, Snapshot } from "../../../src/model/snapshot.ts";
import { canonicalNft } from "../../conformance/canonical.ts";
import {
  type ApiObject,
  type Case,
  casesOf,
  configText,
  nodeObject,
  readCase,
  recorded,
} from "../../conformance/case-file.ts";
import { kernelMissing, Netns } from "./kernel.ts";

setDefaultTimeout(60_000);

const missing = kernelMissing();
if (missing !== undefined) console.warn(`recorded nftables cases skipped: ${missing}`);

describe.skipIf(missing !== undefined)("recorded cases", () => {
  const netns = missing === undefined ? new Netns() : undefined;
  afterAll(() => netns?.close());

  test.each(casesOf("nftables"))("%s", (name) => {
    const it = readCase(name);
    for (const { family } of contextsOf(it, nodeObject(it.node))) if (netns !== undefined) play(it, family.name, netns);
  });
});

function play(it: Case, family: FamilyName, netns: Netns): void {
  const objects = new Map<string, ApiObject>();
  let node = nodeObject(it.node);
  let context = contextOf(it, node, family);
  netns.run(nftables.cleanup(context));
  let now = 1_000_000;
  let state: NftState | undefined;
  for (const [i, step] of it.steps.entries()) {
    for (const object of step.apply ?? []) objects.set(idOf(object), object);
    for (const object of step.delete ?? []) objects.delete(idOf(object));
    node = step.apply?.find((object) => object.kind === "Node") ?? node;
    context = contextOf(it, node, family);
    const desired = nftables.desired(makePlan(snapshotOf(objects), context), context, state);
    const from = state === undefined ? observe(context, netns) : ({ kind: "state", state } as const);
    const change = nftables.diff(from, desired, context, now);
    netns.run(change.steps);
    state = change.state;
    // The proxy that was recorded had at least a second between the steps.
    now += 5_000;
    const actual = canonicalNft(netns.list(context.family.nft));
    expect(actual).toBe(recorded(it.name, "nftables", i + 1).get(`nft-${context.family.nft}`) ?? "");
  }
  if (state === undefined) throw new Error("a case without steps");
  // A restart finds everything right: the listing is compared with what we write, so this proves the two spellings equal.
  const again = nftables.diff(observe(context, netns), { ...state, condemned: new Map() }, context, now);
  expect({ chains: again.counts["chains"], elements: again.counts["elements"] }).toEqual({
    // nft joins the two neighbouring ServiceCIDRs into one.
    chains: it.name === "service-cidr" && family === "IPv4" ? 1 : 0,
    elements: 0,
  });
}

function observe(context: Context, netns: Netns) {
  const reading = nftables.observe(context);
  return { kind: "observed", observed: reading.parse(netns.run(reading.steps)) } as const;
}

function contextOf(it: Case, node: ApiObject, family: FamilyName): Context {
  const found = contextsOf(it, node).find((context) => context.family.name === family);
  if (found === undefined) throw new Error(`no context for ${family}`);
  return found;
}

function contextsOf(it: Case, nodeObject: ApiObject): readonly Context[] {
  const config = makeConfig(decodeConfig("case", configText(it, "nftables", "none")).settings);
  const node = parseNode(nodeObject).value;
  const supported = it.name === "ipv4-only-kernel" ? (["IPv4"] as const) : (["IPv4", "IPv6"] as const);
  return makeContexts({
    config,
    nodeName: it.node.name,
    node,
    identity: nodeIdentity(node, config.bindAddress),
    supported,
    facts: { iptables: "nft", randomFully: true, nfacct: true, tcpBeLiberal: false, kernel: [6, 1] },
    localAddresses: Object.values(it.host.addrs).flatMap((list) => list.map((address) => address.split("/")[0] ?? "")),
    gates: new Set(),
  }).list;
}

function idOf({ kind, metadata }: ApiObject): string {
  return `${kind} ${metadata.namespace ?? ""}/${metadata.name}`;
}

/** What kube/ makes of the objects, without its network side: headless Services and foreign proxies' ones are left out. */
function snapshotOf(objects: ReadonlyMap<string, ApiObject>): Snapshot {
  const slices = new Map<string, EndpointSlice[]>();
  const services = new Map<string, ServiceInput>();
  const cidrs: string[] = [];
  for (const object of objects.values()) {
    if (object.kind === "ServiceCIDR") cidrs.push(...(parseServiceCIDR(object).value ?? []));
    if (object.kind !== "EndpointSlice" || labelOf(object, "service.kubernetes.io/headless") !== undefined) continue;
    const slice = parseEndpointSlice(object).value;
    if (slice !== undefined) slices.set(slice.serviceKey, [...(slices.get(slice.serviceKey) ?? []), slice]);
  }
  for (const object of objects.values()) {
    if (object.kind !== "Service" || labelOf(object, "service.kubernetes.io/service-proxy-name") !== undefined)
      continue;
    const service = parseService(object).value;
    const own = service === undefined ? [] : (slices.get(service.key) ?? []);
    if (service !== undefined)
      services.set(service.key, { service, slices: own.toSorted((a, b) => (a.name < b.name ? -1 : 1)) });
  }
  return { services, node: undefined, serviceCIDRs: cidrs.sort() };
}

function labelOf(object: ApiObject, label: string): string | undefined {
  const { labels } = object.metadata as { labels?: Readonly<Record<string, string>> };
  return labels?.[label];
}
