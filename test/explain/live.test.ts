/** `explain --live` on real rules: everything named is found, what somebody removed is missing, in all three modes. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { writeManifests } from "./manifests.ts";

setDefaultTimeout(170_000);

const root = join(import.meta.dir, "..", "..");
const isRoot = process.getuid?.() === 0;
const guest = existsSync("/usr/bin/linux.uml");
if (!isRoot) console.log("explain --live: skipped: needs root, for network namespaces");
if (!guest) console.log("explain --live in ipvs mode: skipped: needs the Debian package user-mode-linux");

async function output(command: readonly string[], env: Record<string, string>): Promise<string> {
  const child = Bun.spawn([...command], { cwd: root, stdout: "pipe", stderr: "pipe", env: { ...process.env, ...env } });
  const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (code !== 0) throw new Error(`exit ${code}: ${err}\n${out}`);
  return out;
}

/** Text of each object and whether it was found, by the question that named it. */
function found(out: string, question: string): readonly string[] {
  const line = out.split("\n").find((one) => one.startsWith(`${question} `)) ?? "";
  const answer = JSON.parse(line.slice(question.length + 1)) as {
    steps: { objects: { text: string; state: string; detail: string }[] }[];
  };
  return answer.steps.flatMap((step) => step.objects.map((o) => `${o.state}${o.detail} ${o.text}`));
}

const script = join(import.meta.dir, "live-questions.sh");

type Mode = "iptables" | "nftables" | "ipvs";

async function ask(mode: Mode, gates: string): Promise<string> {
  const manifests = writeManifests();
  try {
    // The guest's /tmp is its own: what the test wrote is found under another name there.
    const folder = mode === "ipvs" ? manifests.folder.replace(/^\/tmp\//, "/run/host-tmp/") : manifests.folder;
    const command = mode === "ipvs" ? ["scripts/uml", "bash", script] : ["unshare", "-n", "-m", "bash", script];
    return await output(command, {
      MODE: mode,
      GATES: gates,
      MANIFESTS: folder,
      BUN: process.execPath,
      UML_TIMEOUT: "160",
    });
  } finally {
    manifests.remove();
  }
}

describe.skipIf(!isRoot)("explain --live", () => {
  for (const [mode, gates] of [
    ["iptables", ""],
    ["nftables", ""],
    ["nftables", "KubeProxyNFTablesCompact=true"],
    ["ipvs", ""],
  ] as const satisfies readonly (readonly [Mode, string])[])
    test.skipIf(mode === "ipvs" && !guest)(`${mode} ${gates}`, async () => {
      const out = await ask(mode, gates);
      for (const question of ["pod", "outside", "node", "denied", "refused"]) {
        const objects = found(out, question);
        expect([question, objects.length > 0]).toEqual([question, true]);
        expect(objects.filter((text) => !text.startsWith("there "))).toEqual([]);
      }
      const after = found(out, "removed");
      expect(after.filter((text) => text.startsWith("missing ")).length).toBeGreaterThan(0);
      expect(after.filter((text) => text.startsWith("unknown"))).toEqual([]);
    });
});
