/** Values that live elsewhere, from the texts of the tools and the facts of the app. */
import { expect, test } from "bun:test";
import { appSource, nfacctSource, parseNfacct } from "../../src/metrics/sources.ts";

test("nfacct's counters, ours only", async () => {
  const text = `{ pkts = 00000000000000000000, bytes = 00000000000000000000 } = ct_state_invalid_dropped_pkts;
{ pkts = 00000000000000000012, bytes = 00000000000000000720 } = localhost_nps_accepted_pkts;
{ pkts = 00000000000000000099, bytes = 00000000000000000001 } = somebody_elses;
`;
  expect(await nfacctSource(async () => text)()).toEqual([
    { name: "kubeproxy_iptables_ct_state_invalid_dropped_packets_total", value: 0 },
    { name: "kubeproxy_iptables_localhost_nodeports_accepted_packets_total", value: 12 },
  ]);
  expect(parseNfacct("nfacct v1.0.2: error\n")).toEqual([]);
});

test("a real nfacct, in a network namespace of its own", () => {
  const nfacct = Bun.which("nfacct");
  const script = "nfacct add localhost_nps_accepted_pkts && nfacct list";
  const run = nfacct ? Bun.spawnSync(["unshare", "-n", "sh", "-c", script]) : undefined;
  if (run?.exitCode !== 0) {
    console.log(`skipped: ${nfacct ? `nfacct does not work here: ${run?.stderr}` : "nfacct is not installed"}`);
    return;
  }
  expect(parseNfacct(run.stdout.toString())).toEqual([
    { name: "kubeproxy_iptables_localhost_nodeports_accepted_packets_total", value: 0 },
  ]);
});

test("the app's facts; unknown ones are left out", () => {
  expect(appSource(() => ({ now: 9_500, lastContact: 8_000, nodeKnown: false }))()).toEqual([
    { name: "kubeproxy_api_last_contact_seconds", value: 1.5 },
    { name: "kubeproxy_node_known", value: 0 },
  ]);
  expect(appSource(() => ({ now: 1, lastContact: undefined, nodeKnown: undefined }))()).toEqual([]);
});
