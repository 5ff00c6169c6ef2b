import type { Context } from "../../model/context.ts";
import type { Step } from "../../model/step.ts";
export function cleanup(_context: Context): readonly Step[] {
  return [];
}
