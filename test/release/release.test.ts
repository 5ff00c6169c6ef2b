/** `scripts/build --all`: four binaries that are what they say, sums, a bill of materials, and where the x64 one runs. */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, unlinkSync } from "node:fs";
import { resolve } from "node:path";
import { compare, parseNeeds, promised } from "../../scripts/glibc-floor.ts";

setDefaultTimeout(300_000);

const root = resolve(import.meta.dir, "../..");
const dir = mkdtempSync("/var/tmp/kp-release-");
const targets = ["x64", "x64-musl", "arm64", "arm64-musl"] as const;
const file = (target: string) => `${dir}/kube-proxy-linux-${target}`;

function run(argv: readonly string[], options: { readonly cwd?: string } = {}) {
  const env = {
    PATH: "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    HOME: process.env["HOME"] ?? "/root",
    LC_ALL: "C",
  };
  const done = Bun.spawnSync([...argv], { env, ...options, stdin: "ignore", timeout: 280_000 });
  return { code: done.exitCode, out: done.stdout.toString(), err: done.stderr.toString() };
}

function must(argv: readonly string[], options: { readonly cwd?: string } = {}): string {
  const { code, out, err } = run(argv, options);
  if (code !== 0) throw new Error(`${argv.join(" ")}: exit ${code}\n${err}`);
  return out;
}

beforeAll(() => {
  expect(
    must([`${root}/scripts/build`, "--all", "--outdir", dir])
      .trim()
      .split("\n")
      .at(-1),
  ).toBe(dir);
});
afterAll(() => rmSync(dir, { recursive: true }));

test("four binaries, their sums and the bill of materials, and nothing else", () => {
  const expected = [...targets.map((target) => `kube-proxy-linux-${target}`), "SHA256SUMS", "sbom.cdx.json"];
  expect(readdirSync(dir).sort()).toEqual(expected.sort());
  expect(must(["sha256sum", "--check", "--strict", "SHA256SUMS"], { cwd: dir }).match(/: OK$/gm)?.length).toBe(5);
});

test.each([
  ["x64", "Advanced Micro Devices X86-64", "/lib64/ld-linux-x86-64.so.2"],
  ["x64-musl", "Advanced Micro Devices X86-64", "/lib/ld-musl-x86_64.so.1"],
  ["arm64", "AArch64", "/lib/ld-linux-aarch64.so.1"],
  ["arm64-musl", "AArch64", "/lib/ld-musl-aarch64.so.1"],
] as const)("%s is for its machine and C library", (target, machine, loader) => {
  const headers = must(["readelf", "--file-header", "--program-headers", "--wide", file(target)]);
  expect(headers).toContain(machine);
  expect(headers).toContain(`[Requesting program interpreter: ${loader}]`);
});

describe("glibc", () => {
  test.each(["x64", "arm64"] as const)("%s needs no newer one than promised, and no other library", (target) => {
    const { glibc, libraries } = parseNeeds(must(["readelf", "--version-info", "--dynamic", "--wide", file(target)]));
    expect(libraries).toContain("libc.so.6");
    expect(libraries.filter((name) => !/^(lib(c|m|dl|pthread|rt)|ld-linux-[a-z0-9-]+)\.so/.test(name))).toEqual([]);
    expect(compare(glibc, "2.0")).toBeGreaterThan(0);
    expect(compare(glibc, promised[target] ?? "0")).toBeLessThanOrEqual(0);
  });

  test("a newer need is seen", () => {
    const text =
      "  0x0010:   Name: GLIBC_2.9  Flags: none\n  0x0020:   Name: GLIBC_2.38  Flags: none\n  Name: GLIBC_2.17\n";
    expect(parseNeeds(text)).toEqual({ glibc: "2.38", libraries: [] });
    expect(compare("2.38", "2.17")).toBeGreaterThan(0);
    expect(compare("2.9", "2.17")).toBeLessThan(0);
  });
});

test("the bill of materials names what is inside, with version, licence and digest, and no build tool", () => {
  const bom = JSON.parse(readFileSync(`${dir}/sbom.cdx.json`, "utf8"));
  const { dependencies, devDependencies, version } = JSON.parse(readFileSync(`${root}/package.json`, "utf8"));
  expect(bom).toMatchObject({
    bomFormat: "CycloneDX",
    metadata: { component: { name: "kube-proxy", version: `v${version}` } },
  });
  const byName = new Map<string, { version: string; hashes: unknown[]; licenses: unknown[] }>(
    bom.components.map((c: { name: string }) => [c.name, c]),
  );
  for (const [name, wanted] of Object.entries(dependencies)) expect(byName.get(name)?.version).toBe(String(wanted));
  expect(byName.get("bun")?.version).toBe(devDependencies.bun);
  for (const name of ["@biomejs/biome", "typescript", "@types/bun"]) expect(byName.has(name)).toBe(false);
  const refs = bom.components.map((c: { "bom-ref": string }) => c["bom-ref"]);
  expect(new Set(refs).size).toBe(refs.length);
  expect([...byName.values()].filter((c) => c.hashes.length !== 1)).toEqual([]);
});

test("the same source and SOURCE_DATE_EPOCH give the same bytes", () => {
  const build = (name: string) => {
    must(["env", "SOURCE_DATE_EPOCH=1700000000", `${root}/scripts/build`, "--outfile", `${dir}/${name}/kube-proxy`]);
    return Bun.file(`${dir}/${name}/kube-proxy`);
  };
  expect(run(["cmp", build("one").name ?? "", build("two").name ?? ""]).code).toBe(0);
  for (const name of ["one", "two"]) rmSync(`${dir}/${name}`, { recursive: true });
});

test("an unknown argument is refused", () => {
  expect(run([`${root}/scripts/build`, "--al"])).toMatchObject({ code: 1, out: "" });
});

/** Debian's base packages unpacked and nothing configured; kept, because it takes a minute. */
function minimalRoot(): string {
  const kept = "/var/tmp/kp-minimal-root";
  if (existsSync(kept)) return kept;
  const fresh = `${kept}.${process.pid}`;
  must(["debootstrap", "--foreign", "--variant=minbase", "bookworm", fresh, "http://deb.debian.org/debian"]);
  // In a container debootstrap makes these links to the host's.
  must(["sh", "-ec", `cd ${fresh}; for d in proc sys; do [ ! -L $d ] || rm $d; mkdir -p $d; done`]);
  if (!existsSync(kept)) renameSync(fresh, kept);
  return kept;
}

test("x64 runs in a minimal Debian root, where no tool is, and says which are missing", () => {
  const base = minimalRoot();
  const inside = `${base}/kube-proxy-${process.pid}`;
  must(["cp", file("x64"), inside]);
  try {
    const chrooted = (...args: readonly string[]) =>
      run([
        "unshare",
        "-n",
        "-m",
        "sh",
        "-ec",
        `mount -t proc proc ${base}/proc; exec chroot ${base} env -i "$@"`,
        "sh",
        inside.slice(base.length),
        ...args,
      ]);
    expect(existsSync(`${base}/usr/sbin/iptables`)).toBe(false);
    expect(chrooted("--version")).toMatchObject({ code: 0, err: "" });
    expect(chrooted("--cleanup")).toEqual({ code: 0, out: "nothing to remove\n", err: "" });
    const { code, err } = chrooted("--proxy-mode", "nftables", "--manifests", "/dev/null", "--hostname-override", "n");
    expect(code).toBe(1);
    expect(err).toMatch(/nftables mode cannot run here: nft .*install the .*nftables/);
  } finally {
    unlinkSync(inside);
  }
});

describe("other processors, emulated", () => {
  test("x64 runs on one without AVX (Nehalem, 2008)", () => {
    expect(must(["qemu-x86_64", "-cpu", "Nehalem", file("x64"), "--version"])).toStartWith("Kubernetes v1.37.");
  });

  test("arm64 runs", () => {
    const emulated = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", file("arm64")];
    expect(must([...emulated, "--version"])).toStartWith("Kubernetes v1.37.");
    expect(run([...emulated, "--no-such-flag"])).toMatchObject({ code: 1 });
  });
});
