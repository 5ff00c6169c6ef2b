/** The last resort, in the whole program run from source: an error that should not happen is put into the loop. */
import { describe, expect, test } from "bun:test";
import { fit, healthy, newApi, nftTable, type ProxyRun, resetHost, startProxy, until } from "../process/harness.ts";
import { node1, service, slice } from "../process/objects.ts";

function start(crashes: number): ProxyRun {
  resetHost();
  const api = newApi();
  api.setNode("node-1", node1);
  api.apply([service("a"), slice("a", ["10.244.2.5"])]);
  const root = `${import.meta.dir}/../..`;
  // `bun --preload … src/main.ts` in place of the binary: the shell drops the binary's path.
  const words = [
    "sh",
    "-c",
    `shift; exec "${process.execPath}" --preload "${import.meta.dir}/crash.ts" "${root}/src/main.ts" "$@"`,
    "sh",
  ];
  return startProxy(api, { wrapper: words, env: { KP_TEST_CRASHES: String(crashes) } });
}

describe.skipIf(!fit)("unexpected errors", () => {
  test("twice: the family starts over and all is right", async () => {
    const run = start(2);
    await until(healthy, () => run.log());
    expect(nftTable()).toContain("10.244.2.5");
    expect(run.log().split("Unexpected error, starting over").length - 1).toBe(2);
    await run.stop();
  });

  test("three in a row end the process with exit 1 and a last line that says so", async () => {
    const run = start(100);
    expect(await run.exit()).toBe(1);
    const last = run.log().trim().split("\n").at(-1) ?? "";
    expect(last).toMatch(
      /IPv4: 3 unexpected errors in a row, giving up; the last was: TypeError: Cannot read properties of undefined/,
    );
  });
});
