/** Runs a backend's Reading to its end. */
import type { Reading } from "../backends/backend.ts";
import type { RunSteps } from "./modes.ts";

/** Throws CommandError when a step fails that may not. */
export async function readKernel<T>(reading: Reading<T>, run: RunSteps): Promise<T> {
  const results = await run(reading.steps);
  const further = reading.further?.(results);
  return further === undefined ? reading.parse(results) : readKernel(further, run);
}
