/** The page and its data from the running proxy itself, in a network namespace; nothing is served without an address. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { writeManifests } from "../explain/manifests.ts";

setDefaultTimeout(90_000);

const root = join(import.meta.dir, "..", "..");
const isRoot = process.getuid?.() === 0;
if (!isRoot) console.log("status page from the running proxy: skipped: needs root, for network namespaces");

async function inNamespace(...flags: readonly string[]): Promise<string> {
  const manifests = writeManifests();
  const script = join(import.meta.dir, "served-answers.sh");
  try {
    const child = Bun.spawn(["unshare", "-n", "-m", "bash", script, ...flags], {
      cwd: root,
      stdout: "pipe",
      stderr: "pipe",
      env: { ...process.env, MANIFESTS: manifests.folder, BUN: process.execPath },
    });
    const [out, err, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
    if (code !== 0) throw new Error(`exit ${code}: ${err}\n${out}`);
    return out;
  } finally {
    manifests.remove();
  }
}

describe.skipIf(!isRoot)("the running proxy", () => {
  test("serves the page, and explains from the plan that it programmed", async () => {
    const out = await inNamespace("--metrics-bind-address=127.0.0.1:10249");
    const answers = new Map(
      out.split("\n").map((line) => [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)]),
    );
    expect(answers.get("page")).toContain("text/html");
    const { verdict } = JSON.parse(answers.get("explain") ?? "");
    expect(verdict).toMatchObject({
      mode: "nftables",
      nodeName: "node-1",
      service: "shop/web",
      fate: { kind: "dnat" },
    });
    expect(verdict.fate.shares.map((s: { ip: string }) => s.ip)).toEqual(["10.244.1.5"]);
    expect(JSON.parse(answers.get("services") ?? "")).toMatchObject({ total: 2, matching: 1 });
    const history = JSON.parse(answers.get("history") ?? "");
    expect(history.syncs.map((s: { family: string }) => s.family)).toEqual(expect.arrayContaining(["IPv4", "IPv6"]));
  });

  test("serves nothing with an empty metrics address", async () => {
    expect(await inNamespace("--metrics-bind-address=")).toBe("refused\n");
  });
});
