/** Texts of the status pages. */
import { expect, test } from "bun:test";
import { ago, flagzText, proxyLines, slisText, statuszText } from "../../src/metrics/status-pages.ts";
import { recorded } from "../health/recorded.ts";
import { parseExposition } from "./exposition.ts";

const facts = {
  startedAt: Date.parse("2026-11-30T12:48:30Z"),
  now: Date.parse("2026-11-30T12:48:35.9Z"),
  version: "1.36.2",
  runtime: "1.4.5",
  paths: ["/proxyMode", "/configz", "/flagz", "/healthz", "/metrics"],
  lines: [],
};

test("statusz is the recorded one but for the runtime", () => {
  const theirs = recorded("10249_statusz").body.replace(/^Go version: .*/m, "Bun version: 1.4.5");
  expect(statuszText(facts)).toBe(theirs);
});

test("statusz says more, one line each, whatever the values hold", () => {
  const text = statuszText({
    ...facts,
    now: facts.startedAt + 90_061_000,
    lines: [
      ["Node", "a\nb\u001b[2J"],
      ["Last sync", ago(1_000, 3_500)],
    ],
  });
  expect(text).toContain("\nUp: 25 hr 01 min 01 sec\n");
  expect(text).toEndWith("\nNode: a b [2J\nLast sync: 2.5s ago\n");
  expect(ago(undefined, 1)).toBe("never");
  expect(statuszText({ ...facts, startedAt: Date.parse("2026-12-01T00:00:00Z") })).toContain(
    "Started: Tue Dec  1 00:00:00 UTC 2026\n",
  );
});

test("flagz given the recorded flags is the recorded page", () => {
  const body = recorded("10249_flagz").body.replace("write-config-to:\n", "write-config-to: \n");
  const flags = body
    .split("\n")
    .slice(3, -1)
    .map((line): [string, string] => [line.split(": ")[0] ?? "", line.split(": ").slice(1).join(": ")]);
  expect(flags.length).toBeGreaterThan(50);
  expect(flagzText(new Map(flags.reverse()))).toBe(body);
});

test("slis has the recorded samples", () => {
  const theirs = parseExposition(recorded("10249_metrics_slis").body);
  expect(parseExposition(slisText(1, 1796042910.97))).toEqual(theirs);
});

test("what an operator asks first", () => {
  const lines = proxyLines(
    {
      mode: "nftables",
      nodeName: "n1",
      nodeKnown: false,
      source: "https://10.0.0.1:6443",
      lastContact: 58_000,
      families: [
        { family: "IPv4", lastSynced: 50_000, dueSince: undefined, error: undefined, quarantined: [] },
        {
          family: "IPv6",
          lastSynced: undefined,
          dueSince: 40_000,
          error: "nft: no such file",
          quarantined: [{ service: "ns/a", reason: "name too long" }],
        },
      ],
      pending: { services: 1, endpoints: 2 },
    },
    60_000,
  );
  expect(lines.map((line) => line.join(": "))).toEqual([
    "Mode: nftables",
    "Node: n1 (no such Node: Local traffic policies and health checks are off)",
    "Objects from: https://10.0.0.1:6443",
    "Last API contact: 2.0s ago",
    "Pending changes: 1 Services, 2 endpoint slices",
    "IPv4 last sync: 10.0s ago",
    "IPv6 last sync: never",
    "IPv6 sync due since: 20.0s ago",
    "IPv6 last error: nft: no such file",
    "IPv6 left out: ns/a: name too long",
  ]);
});
