/**
 * The oldest glibc that binaries run with, read from the symbol versions they need: `bun scripts/glibc-floor.ts FILE…`
 * prints a line each and fails when one needs a newer glibc than we promise, or a library that a minimal system lacks.
 */

/** What the README promises. Debian 8, RHEL 7 and all later ones have it. */
export const promised: Readonly<Record<string, string>> = { x64: "2.17", arm64: "2.17" };

const allowedLibraries = /^(libc|libm|libpthread|libdl|librt|ld-linux-[a-z0-9-]+)\.so\.\d+$/;

export interface Needs {
  /** e.g. `2.17`. */
  readonly glibc: string;
  readonly libraries: readonly string[];
}

/** From the output of `readelf --version-info --dynamic --wide`. */
export function parseNeeds(text: string): Needs {
  const versions = [...text.matchAll(/Name: GLIBC_(\d+(?:\.\d+)*)\b/g)].map((m) => m[1] ?? "0");
  const libraries = [...text.matchAll(/\(NEEDED\)\s+Shared library: \[(.+?)\]/g)].map((m) => m[1] ?? "");
  return { glibc: versions.toSorted(compare).at(-1) ?? "0", libraries };
}

export function compare(a: string, b: string): number {
  const [left, right] = [a.split(".").map(Number), b.split(".").map(Number)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

if (import.meta.main) {
  let bad = false;
  for (const file of process.argv.slice(2)) {
    const done = Bun.spawnSync(["readelf", "--version-info", "--dynamic", "--wide", file], { stderr: "inherit" });
    if (!done.success) {
      console.error(`${file}: readelf failed (package binutils)`);
      process.exit(1);
    }
    const { glibc, libraries } = parseNeeds(done.stdout.toString());
    const most = promised[file.includes("arm64") ? "arm64" : "x64"] ?? "0";
    const strange = libraries.filter((name) => !allowedLibraries.test(name));
    console.log(`${file}: glibc ${glibc} or later (promised: ${most}); ${libraries.join(" ")}`);
    if (compare(glibc, most) > 0 || glibc === "0" || strange.length > 0) {
      console.error(
        `${file}: needs glibc ${glibc}${strange.length > 0 ? ` and ${strange.join(", ")}` : ""}, which breaks the promise`,
      );
      bad = true;
    }
  }
  process.exit(bad ? 1 : 0);
}
