import type { Context } from "../../model/context.ts";
import type { Drift, Reading } from "../backend.ts";
import type { IptablesState } from "./state.ts";
export function inspect(_state: IptablesState, _context: Context): Reading<readonly Drift[]> {
  return { steps: [], parse: () => [] };
}
