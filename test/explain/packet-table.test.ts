/**
 * Every packet of the packet table, in each mode and family: explained, walked through the rule values, and both held
 * against the fate of a real one there.
 */
import { describe, expect, test } from "bun:test";
import { makeContexts, nodeIdentity, ruleGates } from "../../src/app/contexts.ts";
import { decodeConfig } from "../../src/config/decode.ts";
import { makeConfig } from "../../src/config/defaults.ts";
import { explainPacket } from "../../src/explain/explain.ts";
import { type Here, readSource } from "../../src/explain/packet.ts";
import type { Verdict } from "../../src/explain/verdict.ts";
import { ObjectStore } from "../../src/kube/object-store.ts";
import { parseEndpointSlice } from "../../src/model/endpoint-slice-parse.ts";
import type { FamilyName } from "../../src/model/family.ts";
import { parseNode, parseServiceCIDR } from "../../src/model/node-parse.ts";
import type { Parsed } from "../../src/model/note.ts";
import { makePlan } from "../../src/model/planner.ts";
import { parseService } from "../../src/model/service-parse.ts";
import { gateway, nodeAddress, nodeName, placeAddress, podAddress, secondNodeAddress } from "../lab/topology.ts";
import {
  type ApiObject,
  clusterObjects,
  doorAddress,
  type Placed,
  placeServices,
  serviceObjects,
} from "../packets/objects.ts";
import { type Mode, modes, type Packet, type Fate as RowFate, type Setting } from "../packets/row.ts";
import { configuration } from "../packets/settings.ts";
import { casesOf, table } from "../packets/table.ts";
import { printExplained, printOutcomes } from "../walker/fate.ts";
import { walked, walkerOf } from "../walker/walk.ts";

const own = (family: FamilyName): readonly string[] => [
  nodeAddress[family],
  secondNodeAddress[family],
  gateway[family],
];

function storeOf(objects: readonly ApiObject[]): ObjectStore {
  const store = new ObjectStore(nodeName);
  const put = <T>(parsed: Parsed<T>, set: (value: T) => void): void => {
    if (parsed.value === undefined) throw new Error(`not understood: ${JSON.stringify(parsed.notes)}`);
    set(parsed.value);
  };
  for (const object of objects) {
    const key = `${object.metadata.namespace ?? ""}/${object.metadata.name}`;
    switch (object.kind) {
      case "Service":
        put(parseService(object), (value) => store.services.set(key, value));
        break;
      case "EndpointSlice":
        put(parseEndpointSlice(object), (value) => store.endpointSlices.set(key, value));
        break;
      case "ServiceCIDR":
        put(parseServiceCIDR(object), (value) => store.serviceCIDRs.set(key, value));
        break;
      default:
        put(parseNode(object), (value) => store.nodes.set(object.metadata.name, value));
    }
  }
  return store;
}

function contextOf(setting: Setting, mode: Mode, family: FamilyName, compact: boolean, store: ObjectStore) {
  const text = JSON.stringify(configuration(setting, { mode, compact, kubeconfig: "/kubeconfig" }));
  const config = makeConfig(decodeConfig("config.json", text).settings);
  const { list } = makeContexts({
    config,
    nodeName,
    node: store.node,
    identity: nodeIdentity(store.node, config.bindAddress),
    supported: ["IPv4", "IPv6"],
    facts: { iptables: "nft", randomFully: true, nfacct: false, tcpBeLiberal: false, kernel: [6, 1] },
    localAddresses: [...own("IPv4"), ...own("IPv6"), "127.0.0.1", "::1"],
    gates: ruleGates(config),
  });
  const context = list.find((c) => c.family.name === family);
  if (context === undefined) throw new Error(`no context for ${family}`);
  return context;
}

/** What a client of the lab meets: nobody listens on the node, and what leaves by the route gets lost. */
function meets(verdict: Verdict, family: FamilyName): string {
  const { fate } = verdict;
  switch (fate.kind) {
    case "drop":
      return "dropped";
    case "reject":
      return "refused";
    case "pass":
      return fate.to === "host" ? "refused" : "dropped";
    default: {
      const back = fate.shares.filter((s) => !s.repliesLost);
      if (back.length === 0) return "dropped";
      const pods = back.map((s) => podsByAddress[family].get(s.ip) ?? s.ip).sort();
      return `answered by ${pods.join(" ")}, source ${sourceSeen(
        verdict,
        back.every((s) => s.masqueraded),
      )}`;
    }
  }
}

function sourceSeen({ packet, family }: Verdict, masqueraded: boolean): "node" | "client" {
  return masqueraded || own(family).includes(packet.from.ip) ? "node" : "client";
}

const podsByAddress = {
  IPv4: new Map((["a", "b", "c", "d"] as const).map((pod) => [podAddress(pod, "IPv4"), pod as string])),
  IPv6: new Map((["a", "b", "c", "d"] as const).map((pod) => [podAddress(pod, "IPv6"), pod as string])),
};

function expected(fate: RowFate, packet: Packet, said: string): string {
  if (fate.kind !== "answered") return fate.kind;
  const by = `answered by ${[...fate.by].sort().join(" ")}, source `;
  if (fate.source === "any") return said.startsWith(by) ? said : `${by}any`;
  return `${by}${packet.from === "node" ? "node" : fate.source}`;
}

interface Run {
  readonly mode: Mode;
  readonly compact: boolean;
  readonly family: FamilyName;
}

const runs: readonly Run[] = (["IPv4", "IPv6"] as const).flatMap((family) => [
  ...modes.map((mode) => ({ mode, compact: false, family })),
  { mode: "nftables" as const, compact: true, family },
]);

function differences({ mode, compact, family }: Run): { readonly count: number; readonly lines: readonly string[] } {
  const lines: string[] = [];
  let count = 0;
  for (const setting of new Set(table.map((row) => row.setting))) {
    const rows = table.filter((row) => row.setting === setting);
    const placed = placeServices(rows, 1);
    const services = [...placed.values()].flatMap((row) => [...row.values()]);
    const store = storeOf([...clusterObjects(), ...services.flatMap(serviceObjects)]);
    const context = contextOf(setting, mode, family, compact, store);
    const plan = makePlan(store.snapshot(), context);
    const walk = walkerOf(plan, context);
    const here: Here = { localAddresses: new Set(own(family)), podCIDRs: store.node?.podCIDRs ?? [] };
    for (const { row, packet, fate } of casesOf(rows, mode, family)) {
      const service = placed.get(row)?.get(packet.to) as Placed;
      const door = doorAddress(service, packet.door, family);
      const to = { ...door, port: packet.port ?? door.port, protocol: packet.transport ?? "tcp" } as const;
      const from = readSource(placeAddress(packet.from, family) ?? "node", to, plan, context, here);
      if (!from.ok) throw new Error(from.problem);
      const verdict = explainPacket(plan, context, { from: from.value, to }, here);
      const said = meets(verdict, family);
      const real = expected(fate, packet, said);
      count++;
      const way = printOutcomes(walk(walked(verdict.packet, here)));
      if (way !== printExplained(verdict.fate))
        lines.push(`${row.name} | ${packet.from} → ${packet.to}: walked ${way}`);
      if (said !== real)
        lines.push(
          `${row.name} | ${to.protocol} ${packet.from} → ${packet.to} ${packet.door} ${packet.port ?? ""}: real ${real}, explained ${said}\n    ${verdict.steps.map((s) => s.text).join(" | ")}`,
        );
    }
  }
  return { count, lines };
}

describe("explain and the walk through the rules say where real packets ended", () => {
  for (const run of runs)
    test(`${run.mode}${run.compact ? ", compact" : ""} ${run.family}`, () => {
      const { count, lines } = differences(run);
      expect(lines.join("\n")).toBe("");
      expect(count).toBeGreaterThan(150);
      console.log(`explain ${run.mode}${run.compact ? "-compact" : ""} ${run.family}: ${count} packets of the table`);
    });
});
