import { expect, test } from "bun:test";
import { guestUnavailable, runInGuest } from "../uml/guest.ts";

const reason = guestUnavailable();
if (reason !== undefined) console.warn(`conntrack in ipvs mode skipped: ${reason}`);

test.skipIf(reason !== undefined)(
  "flows that ipvs made: an endpoint that left, then the Service",
  async () => {
    const result = await runInGuest([process.execPath, `${import.meta.dir}/guest-conntrack.ts`], 100);
    const line = result.stdout.split("\n").find((text) => text.startsWith("{"));
    if (line === undefined) throw new Error(`the guest said nothing (exit ${result.exitCode}): ${result.stderr}`);
    expect(JSON.parse(line)).toMatchObject({
      before: ["10.1.0.3", "10.1.0.4"],
      healthy: ["10.1.0.3", "10.1.0.4"],
      left: ["10.1.0.4"],
      none: [],
      log: [
        expect.stringContaining("1 of dns/kube-dns:dns (endpoint 10.1.0.3 gone)"),
        expect.stringContaining("1 of dns/kube-dns:dns (port, address or Service gone)"),
      ],
    });
  },
  120_000,
);
