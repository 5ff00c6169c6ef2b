/** Node ports on localhost: UDP and SCTP are rejected by rule and counted, and the order in which endpoints are tried. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { nftables } from "../../../src/backends/nftables/index.ts";
import { type LocalhostPort, orderOfTries, rejectedPackets } from "../../../src/backends/nftables/localhost.ts";
import type { Endpoint } from "../../../src/model/plan.ts";
import { makePlan } from "../../../src/model/planner.ts";
import { testContext } from "../../model/context.ts";
import { snapshotOf } from "../../model/random.ts";
import { kernelMissing, Netns } from "./kernel.ts";

setDefaultTimeout(60_000);

const endpoints: readonly Endpoint[] = [1, 2, 3].map((n) => ({
  ip: `10.244.1.${n}`,
  port: 80,
  local: true,
  ready: true,
  serving: true,
  terminating: false,
}));
const port: LocalhostPort = { nodePort: 30_080, name: "ns/x", endpoints, affinitySeconds: 10 };
const remembered = (n: number, at: number) => ({ endpoint: { ...(endpoints[n] as Endpoint) }, at });

describe("the order of tries", () => {
  test("holds every endpoint once", () => {
    for (const random of [() => 0, () => 0.5, () => 0.999])
      expect(
        orderOfTries(port, undefined, 0, random)
          .map((e) => e.ip)
          .toSorted(),
      ).toEqual(endpoints.map((e) => e.ip));
  });

  test("starts with the remembered one while it is fresh and still there", () => {
    expect(orderOfTries(port, remembered(2, 0), 9_999, () => 0.999)[0]?.ip).toBe("10.244.1.3");
    expect(orderOfTries(port, remembered(2, 0), 10_000, () => 0.999)[0]?.ip).toBe("10.244.1.1");
    const gone = { ...port, endpoints: endpoints.slice(0, 2) };
    expect(orderOfTries(gone, remembered(2, 0), 1, () => 0.999).map((e) => e.ip)).toEqual(["10.244.1.1", "10.244.1.2"]);
    expect(orderOfTries({ ...port, affinitySeconds: 0 }, remembered(2, 0), 0, () => 0.999)[0]?.ip).toBe("10.244.1.1");
  });
});

const missing = kernelMissing();
if (missing !== undefined) console.warn(`UDP node ports on localhost skipped: ${missing}`);

describe.skipIf(missing !== undefined)("UDP on localhost", () => {
  test.each(["IPv4", "IPv6"] as const)("is rejected at once and counted, %s", (family) => {
    const context = testContext("nftables", family, { localhostNodePorts: true });
    const four = family === "IPv4";
    const clusterIP = four ? "10.96.0.1" : "fd00:10:96::1";
    const snapshot = snapshotOf([
      {
        service: {
          metadata: { namespace: "ns", name: "dns", uid: "1" },
          spec: {
            type: "NodePort",
            clusterIP,
            clusterIPs: [clusterIP],
            ports: [{ name: "p", protocol: "UDP", port: 53, nodePort: 30_053 }],
          },
        },
        slices: [],
      },
    ]);
    const netns = new Netns();
    try {
      const state = nftables.desired(makePlan(snapshot, context), context, undefined);
      netns.run(nftables.diff({ kind: "observed", observed: { kind: "absent" } }, state, context, 0).steps);
      const loopback = four ? "127.0.0.1" : "::1";
      // The second write gets the answer to the first; the counter shows that it was the rule's.
      const script = `exec 3<>/dev/udp/${loopback}/30053; printf x >&3; sleep 0.1; printf y 2>&- >&3 || echo refused`;
      const { stdout } = netns.exec(["bash", "-c", script]);
      expect(stdout.trim()).toBe("refused");
      const reading = rejectedPackets(context);
      expect(reading.parse(netns.run(reading.steps)).get("udp")).toBe(1);
      const look = nftables.observe(context);
      const observed = look.parse(netns.run(look.steps));
      expect(nftables.diff({ kind: "observed", observed }, state, context, 0).steps).toEqual([]);
    } finally {
      netns.close();
    }
  });
});
