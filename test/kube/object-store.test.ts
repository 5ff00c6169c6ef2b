/** The store: snapshots keep the identity of what did not change, changes are counted for each consumer. */
import { expect, test } from "bun:test";
import { ObjectStore, type StoreChange } from "../../src/kube/object-store.ts";
import type { EndpointSlice } from "../../src/model/endpoint-slice.ts";
import type { Service } from "../../src/model/service.ts";

function service(name: string, externalIPs: readonly string[] = []): Service {
  return {
    namespace: "ns",
    name,
    key: `ns/${name}`,
    uid: name,
    createdAt: 0,
    clusterIPs: ["10.0.0.1"],
    externalIPs,
    loadBalancerIPs: [],
    sourceRanges: [],
    ports: [],
    affinitySeconds: 0,
    internalLocal: false,
    externalLocal: false,
    healthCheckNodePort: 0,
  };
}

function slice(name: string, of: string, parts: Partial<EndpointSlice> = {}): EndpointSlice {
  return {
    namespace: "ns",
    name,
    serviceKey: `ns/${of}`,
    family: "IPv4",
    ports: [],
    endpoints: [],
    lastChange: 0,
    ...parts,
  };
}

function filled(): ObjectStore {
  const store = new ObjectStore("n1");
  store.services.replace(new Map([service("a"), service("b")].map((one) => [one.key, one])));
  store.endpointSlices.set("ns/a-2", slice("a-2", "a"));
  store.endpointSlices.set("ns/a-1", slice("a-1", "a"));
  return store;
}

test("slices are joined to their Service, sorted by name; slices without Service wait for it", () => {
  const store = filled();
  store.endpointSlices.set("ns/c-1", slice("c-1", "c"));
  expect([...store.snapshot().services.keys()]).toEqual(["ns/a", "ns/b"]);
  expect(
    store
      .snapshot()
      .services.get("ns/a")
      ?.slices.map((one) => one.name),
  ).toEqual(["a-1", "a-2"]);
  store.services.set("ns/c", service("c"));
  expect(store.snapshot().services.get("ns/c")?.slices.length).toBe(1);
});

test("identity: only what changed is new", () => {
  const store = filled();
  const before = store.snapshot();
  expect(store.snapshot()).toBe(before);
  store.services.set("ns/a", service("a"));
  store.endpointSlices.set("ns/a-1", slice("a-1", "a"));
  store.endpointSlices.delete("ns/absent");
  expect(store.snapshot()).toBe(before);
  store.endpointSlices.set("ns/a-1", slice("a-1", "a", { ports: [{ name: "", protocol: "tcp", port: 1 }] }));
  const after = store.snapshot();
  expect(after.services.get("ns/a")).not.toBe(before.services.get("ns/a") as never);
  expect(after.services.get("ns/b")).toBe(before.services.get("ns/b") as never);
  expect(before.services.get("ns/a")?.slices[0]?.ports).toEqual([]);
});

test("a slice that changes its Service leaves the old one", () => {
  const store = filled();
  store.snapshot();
  store.endpointSlices.set("ns/a-1", slice("a-1", "b"));
  const services = store.snapshot().services;
  expect(services.get("ns/a")?.slices.map((one) => one.name)).toEqual(["a-2"]);
  expect(services.get("ns/b")?.slices.map((one) => one.name)).toEqual(["a-1"]);
});

test("replace deletes what is absent; the node is the one of that name", () => {
  const store = filled();
  store.services.replace(new Map([["ns/b", service("b")]]));
  expect([...store.snapshot().services.keys()]).toEqual(["ns/b"]);
  const node = { name: "x", uid: "", addresses: [], podCIDRs: [], zone: "", deleting: false, toBeDeleted: false };
  store.nodes.set("n2", { ...node, name: "n2" });
  expect(store.snapshot().node).toBeUndefined();
  store.nodes.set("n1", { ...node, name: "n1" });
  expect(store.snapshot().node?.name).toBe("n1");
});

test("a burst is one notification", async () => {
  const store = filled();
  await Promise.resolve();
  const heard: StoreChange[] = [];
  const end = store.onChange((change) => heard.push(change));
  for (let i = 0; i < 100; i++) store.services.set(`ns/s${i}`, service(`s${i}`));
  await Promise.resolve();
  expect(heard).toEqual([{ objects: true, node: false }]);
  end();
  store.services.delete("ns/s1");
  await Promise.resolve();
  expect(heard.length).toBe(1);
});

test("tallies count real changes by family, and get back what a failed sync took", () => {
  const store = filled();
  const [v4, v6, all] = [store.tally("IPv4"), store.tally("IPv6"), store.tally()];
  store.services.set("ns/a", service("a"));
  store.services.set("ns/a", service("a", ["192.0.2.9"]));
  store.endpointSlices.set("ns/x", slice("x", "a", { family: "IPv6", lastChange: 50 }));
  store.endpointSlices.set("ns/x", slice("x", "a", { family: "IPv6", lastChange: 60 })); // only a new time: no change
  store.endpointSlices.set(
    "ns/a-1",
    slice("a-1", "a", { lastChange: 70, ports: [{ name: "", protocol: "tcp", port: 1 }] }),
  );
  expect(v4.pending).toEqual({ services: 1, endpoints: 1, triggers: [70] });
  expect(v6.pending).toEqual({ services: 1, endpoints: 1, triggers: [50] });
  const taken = all.take();
  expect(taken).toEqual({ services: 1, endpoints: 2, triggers: [50, 70] });
  store.endpointSlices.delete("ns/x");
  all.putBack(taken);
  expect(all.pending).toEqual({ services: 1, endpoints: 3, triggers: [50, 70] });
});
