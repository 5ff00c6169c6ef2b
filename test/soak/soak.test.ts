import { expect, test } from "bun:test";
import { fit } from "../process/harness.ts";
import { halves, soak } from "./soak.ts";

const seconds = Number(process.env["KP_SOAK_SECONDS"] ?? 90);

test.skipIf(!fit)(
  `${seconds} seconds of churn at 300 Services: resident memory and open files are flat`,
  async () => {
    const seed = Date.now() % 1_000_000;
    const { samples, log } = await soak({
      mode: "nftables",
      seconds,
      services: 300,
      every: 5,
      seed,
      onSample: () => {},
    });
    const { resident, files } = halves(samples);
    console.log(
      `soak: seed ${seed}, ${samples.at(-1)?.changes} changes, MB ${samples.map((s) => s.resident).join(" ")}`,
    );
    expect(samples.length).toBeGreaterThan(seconds / 10);
    expect(log).not.toMatch(/Sync failed|Unexpected error|not programmed/);
    // What a garbage collector may leave lying, but no leak of two minutes.
    expect(resident[1]).toBeLessThan(resident[0] * 1.25 + 10);
    expect(files[1]).toBeLessThanOrEqual(files[0] + 3);
  },
  seconds * 1000 + 120_000,
);
