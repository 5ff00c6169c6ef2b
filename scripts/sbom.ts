/**
 * CycloneDX bill of materials of what is inside the binary, from package-lock.json: the packages reachable from
 * `dependencies`, and the Bun runtime. `bun scripts/sbom.ts VERSION BUN_VERSION` prints JSON.
 */
import { readFileSync } from "node:fs";

interface LockEntry {
  readonly version: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

interface Component {
  readonly type: "library" | "platform";
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly licenses: readonly { readonly license: { readonly id: string } }[];
  readonly hashes: readonly { readonly alg: "SHA-512"; readonly content: string }[];
}

type Packages = Readonly<Record<string, LockEntry>>;

/** Places in the lock file (`node_modules/a/node_modules/b`) of all that the roots need, resolved as node does. */
export function reachable(packages: Packages, roots: readonly string[]): readonly string[] {
  const found = new Set<string>();
  const visit = (place: string): void => {
    if (found.has(place)) return;
    found.add(place);
    for (const name of Object.keys(packages[place]?.dependencies ?? {})) {
      const at = locate(packages, place, name);
      if (at !== undefined) visit(at);
    }
  };
  for (const name of roots) visit(`node_modules/${name}`);
  return [...found].sort();
}

export function component(place: string, entry: LockEntry): Component {
  const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
  const purl = `pkg:npm/${name.replace("@", "%40")}@${entry.version}`;
  const digest = entry.integrity?.startsWith("sha512-")
    ? Buffer.from(entry.integrity.slice(7), "base64").toString("hex")
    : "";
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version: entry.version,
    purl,
    licenses: entry.license === undefined ? [] : [{ license: { id: entry.license } }],
    hashes: digest === "" ? [] : [{ alg: "SHA-512", content: digest }],
  };
}

function locate(packages: Packages, from: string, name: string): string | undefined {
  for (let base = from; ; base = base.slice(0, Math.max(0, base.lastIndexOf("/node_modules/")))) {
    const place = base === "" ? `node_modules/${name}` : `${base}/node_modules/${name}`;
    if (packages[place] !== undefined) return place;
    if (base === "") return undefined;
  }
}

if (import.meta.main) {
  const [version = "", bun = ""] = process.argv.slice(2);
  const root = `${import.meta.dir}/..`;
  const { packages } = JSON.parse(readFileSync(`${root}/package-lock.json`, "utf8")) as { packages: Packages };
  const places = reachable(packages, Object.keys(packages[""]?.dependencies ?? {}));
  const runtime: Component = {
    ...component("node_modules/bun", { ...packages["node_modules/bun"], version: bun }),
    type: "platform",
    licenses: [{ license: { id: "MIT" } }],
  };
  const components = [
    runtime,
    ...places.flatMap((p) => (packages[p] === undefined ? [] : [component(p, packages[p])])),
  ];
  const purl = `pkg:generic/kube-proxy@${version}`;
  const bom = {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: { type: "application", "bom-ref": purl, name: "kube-proxy", version, purl } },
    components,
    dependencies: [{ ref: purl, dependsOn: components.map((c) => c["bom-ref"]) }],
  };
  console.log(JSON.stringify(bom, null, 2));
}
