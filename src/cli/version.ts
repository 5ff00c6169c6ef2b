/** What this build is: stamped in by scripts/build (`--define KP_VERSION='"v1.37.0"'` and so on). */

declare const KP_VERSION: string;
declare const KP_COMMIT: string;
declare const KP_BUILD_DATE: string;

export const version = typeof KP_VERSION === "string" ? KP_VERSION : "v1.37.0";
export const commit = typeof KP_COMMIT === "string" ? KP_COMMIT : "unknown";
/** RFC 3339; `unknown` when run from source. */
export const buildDate = typeof KP_BUILD_DATE === "string" ? KP_BUILD_DATE : "unknown";

/** What --version prints; the first line is the same in both forms, scripts parse it. */
export function versionText(raw: boolean): string {
  const first = `Kubernetes ${version}`;
  if (!raw) return first;
  return [
    first,
    `gitCommit: ${commit}`,
    `buildDate: ${buildDate}`,
    `runtime: Bun ${Bun.version}`,
    `platform: ${process.platform}/${process.arch}`,
  ].join("\n");
}
