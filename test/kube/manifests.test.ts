/** Manifests: every form of file, live changes, and broken files that hurt nobody. */
import { afterEach, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { readManifest } from "../../src/kube/manifest-file.ts";
import { ManifestError } from "../../src/kube/manifest-objects.ts";
import { startManifests } from "../../src/kube/manifests.ts";
import { ObjectStore } from "../../src/kube/object-store.ts";
import { recordingLog, until } from "./recorder.ts";

let stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops) await stop();
  stops = [];
});

function folder(files: Record<string, string> = {}): string {
  const path = mkdtempSync("/tmp/kp-manifests-");
  for (const [name, text] of Object.entries(files)) writeFileSync(`${path}/${name}`, text);
  return path;
}

function follow(...paths: readonly string[]) {
  const recorder = recordingLog();
  const store = new ObjectStore("n1");
  const stop = new AbortController();
  const source = startManifests({ paths, store, log: recorder.log, signal: stop.signal });
  stops.push(() => {
    stop.abort();
    return source.done;
  });
  let ready = false;
  void source.ready.then(() => {
    ready = true;
  });
  const names = () => [...store.snapshot().services.keys()].sort().join(" ");
  return { store, source, names, isReady: () => ready, ...recorder };
}

const service = (name: string, namespace = "ns") => `apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: ${namespace}}
spec: {clusterIP: 10.0.0.1, ports: [{port: 80}]}
`;

test("multi-document YAML, Lists, JSON, a Node, ServiceCIDRs, a default namespace", async () => {
  const json = JSON.stringify({
    apiVersion: "v1",
    kind: "List",
    items: [
      {
        apiVersion: "v1",
        kind: "Node",
        metadata: { name: "n1" },
        status: { addresses: [{ type: "InternalIP", address: "192.0.2.1" }] },
      },
      {
        apiVersion: "networking.k8s.io/v1",
        kind: "ServiceCIDR",
        metadata: { name: "k" },
        spec: { cidrs: ["10.0.0.0/24"] },
      },
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "ignored" } },
      { apiVersion: "v1", kind: "Service", metadata: { name: "j" }, spec: { clusterIP: "10.0.0.3", ports: [] } },
    ],
  });
  const slice = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: a-1, namespace: ns, labels: {kubernetes.io/service-name: a}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.1.0.1]}]
`;
  const path = folder({
    "a.yaml": `${service("a")}---\n# nothing here\n---\n${service("b")}---\n${slice}`,
    "b.json": json,
    "readme.txt": "kind: [",
    ".hidden.yaml": "kind: [",
  });
  const { store, source, names } = follow(path);
  await source.ready;
  expect(names()).toBe("default/j ns/a ns/b");
  expect(store.snapshot().services.get("ns/a")?.slices[0]?.endpoints[0]?.ip).toBe("10.1.0.1");
  expect(store.snapshot().node?.addresses).toEqual(["192.0.2.1"]);
  expect(store.snapshot().serviceCIDRs).toEqual(["10.0.0.0/24"]);
});

test("changes are applied live: rewrite, rename-over, new file, removed file", async () => {
  const path = folder({ "a.yaml": service("a") });
  const { names, source } = follow(path);
  await source.ready;
  writeFileSync(`${path}/a.yaml`, service("a2"));
  await until("rewritten", () => names() === "ns/a2");
  writeFileSync(`${path}/tmp`, service("a3"));
  renameSync(`${path}/tmp`, `${path}/a.yaml`);
  await until("renamed over", () => names() === "ns/a3");
  writeFileSync(`${path}/b.yaml`, service("b"));
  await until("a new file", () => names() === "ns/a3 ns/b");
  rmSync(`${path}/a.yaml`);
  await until("a removed file", () => names() === "ns/b");
});

test("one file; a ConfigMap's symlink swap", async () => {
  const path = folder();
  for (const version of ["one", "two"]) {
    mkdirSync(`${path}/..${version}`);
    writeFileSync(`${path}/..${version}/a.yaml`, service(version));
  }
  symlinkSync("..one", `${path}/..data`);
  symlinkSync("..data/a.yaml", `${path}/a.yaml`);
  const { names, source } = follow(`${path}/a.yaml`);
  await source.ready;
  expect(names()).toBe("ns/one");
  symlinkSync("..two", `${path}/..data_tmp`);
  renameSync(`${path}/..data_tmp`, `${path}/..data`);
  await until("swapped", () => names() === "ns/two");
});

test("a broken file is named with line and column, keeps its last good content, and stops no other", async () => {
  const path = folder({ "a.yaml": service("a"), "b.yaml": service("b") });
  const { names, source, text } = follow(path);
  await source.ready;
  writeFileSync(`${path}/a.yaml`, `${service("x")}---\nkind: Service\nmetadata: {name: [}\n`);
  writeFileSync(`${path}/b.yaml`, service("b2"));
  await until("the other file", () => names() === "ns/a ns/b2");
  expect(text()).toContain(`a.yaml:7:19`);
  expect(text()).toContain("its last good content is kept");
  writeFileSync(`${path}/a.yaml`, service("fixed"));
  await until("corrected", () => names() === "ns/b2 ns/fixed");
});

test("broken at start: nothing is ready until it is corrected, so no working rule is removed", async () => {
  const path = folder({ "a.yaml": service("a"), "b.yaml": "{ kind: " });
  const { names, isReady, lines } = follow(path);
  await until("told", () => lines.some((line) => line.level === "error"));
  await Bun.sleep(100);
  expect([isReady(), names()]).toEqual([false, ""]);
  writeFileSync(`${path}/b.yaml`, service("b"));
  await until("ready", isReady);
  expect(names()).toBe("ns/a ns/b");
});

test("a folder that goes away for a moment keeps everything; one that never was is refused", async () => {
  const path = folder({ "a.yaml": service("a") });
  const { names, source, lines } = follow(path);
  await source.ready;
  renameSync(path, `${path}-away`);
  await until("told", () => lines.some((line) => String(line.fields["problem"]).includes("no such file")));
  expect(names()).toBe("ns/a");
  const message = "cannot read manifests from /nonexistent/m: no such file or folder";
  expect(() => follow("/nonexistent/m")).toThrow(new ManifestError(message));
});

test("several paths: a file and two folders, each watched, the later one wins, each file once", async () => {
  const [one, two] = [folder({ "a.yaml": service("a") }), folder({ "b.yaml": service("b") })];
  const single = `${folder({ "c.yaml": service("c") })}/c.yaml`;
  const { names, source, text, store } = follow(one, single, two, `${two}/b.yaml`);
  await source.ready;
  expect(names()).toBe("ns/a ns/b ns/c");
  expect(text()).not.toContain("Two manifests");
  writeFileSync(`${two}/b.yaml`, service("b2"));
  await until("second folder", () => names() === "ns/a ns/b2 ns/c");
  writeFileSync(single, service("c2"));
  await until("the file", () => names() === "ns/a ns/b2 ns/c2");
  writeFileSync(`${two}/d.yaml`, service("a").replace("10.0.0.1", "10.0.0.9"));
  await until("the later path wins", () => store.services.rows.get("ns/a")?.clusterIPs[0] === "10.0.0.9");
  expect(text()).toContain("Two manifests of one object");
});

test("one of several paths goes away: its objects stay, the others are followed", async () => {
  const [one, two] = [folder({ "a.yaml": service("a") }), folder({ "b.yaml": service("b") })];
  const { names, source, text } = follow(one, two);
  await source.ready;
  renameSync(one, `${one}-away`);
  writeFileSync(`${two}/b.yaml`, service("b2"));
  await until("the other folder", () => names() === "ns/a ns/b2");
  expect(text()).toContain("its last good content is kept");
  expect(() => follow(two, "/nonexistent/m")).toThrow(/cannot read manifests from \/nonexistent\/m/);
});

test("manifests without a Service: one line says so, and nothing waits", async () => {
  const { source, text } = follow(folder({ "a.yaml": "kind: Namespace\nmetadata: {name: x}\n" }));
  await source.ready;
  expect(text()).toContain("no Service is in these manifests");
});

test("what is no Kubernetes object is refused with its place", () => {
  expect(readManifest("a: 1\n---\nb: 2\n")).toMatchObject({ kind: "broken", at: "1:1" });
  expect(readManifest("kind: Service\n---\n- 1\n")).toMatchObject({ kind: "broken", at: "3:1" });
  expect(readManifest('{"kind":"Service",}\n"')).toMatchObject({ kind: "broken" });
  expect(readManifest("kind: A\nkind: B\n")).toMatchObject({
    kind: "broken",
    at: "2:1",
    message: expect.stringContaining("unique"),
  });
  expect(readManifest("")).toEqual({ kind: "objects", objects: [] });
  expect(readManifest("# only a remark\n")).toEqual({ kind: "objects", objects: [] });
});

test("billion laughs: aliases that multiply without end are refused, not expanded", () => {
  const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(", ")}]`);
  const bomb = `kind: Service\nl0: &l0 [x, x, x, x, x, x, x, x, x]\n${levels.join("\n")}\n`;
  expect(readManifest(bomb)).toMatchObject({ kind: "broken" });
});
