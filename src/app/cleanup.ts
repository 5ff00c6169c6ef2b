/** Removes all that kube-proxy in any mode left on this host, looks again, and tells what went and what is still there. */
import { CommandError } from "../host/command-error.ts";
import { type Part, type PartInputs, partsOf } from "./cleanup-part.ts";

export interface Cleaned {
  /** By place, e.g. `ipsets`; only places where something was removed. */
  readonly removed: ReadonlyMap<string, readonly string[]>;
  /** One line each: what of ours is still there, and why where that is known. */
  readonly remains: readonly string[];
}

/** Idempotent. A part that fails does not stop the others: what it leaves is in `remains`. */
export async function cleanUp(inputs: PartInputs): Promise<Cleaned> {
  const parts = partsOf(inputs);
  const before: (readonly string[])[] = [];
  for (const part of parts) before.push(await part.look());
  const failures = new Map<Part, string>();
  for (const [i, part] of parts.entries()) {
    if (before[i]?.length === 0) continue;
    try {
      await part.remove();
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      failures.set(part, error.message);
    }
  }
  const removed = new Map<string, readonly string[]>();
  const remains: string[] = [];
  for (const [i, part] of parts.entries()) {
    const found = before[i] ?? [];
    if (found.length === 0) continue;
    const after = await part.look();
    const gone = found.filter((item) => !after.includes(item));
    if (gone.length > 0) removed.set(part.place, [...(removed.get(part.place) ?? []), ...gone]);
    remains.push(...after.map((item) => remainder(part, item, failures.get(part))));
  }
  return { removed, remains };
}

/** One line a place: how many, and the first few names. */
export function describeRemoved(removed: Cleaned["removed"]): readonly string[] {
  return [...removed].map(([place, items]) => {
    const shown = items.slice(0, 4).join(", ");
    const noun = items.length === 1 ? place.replace(/s$/, "") : place;
    return `${items.length} ${noun}: ${shown}${items.length > 4 ? `, and ${items.length - 4} more` : ""}`;
  });
}

// --- internal ---

function remainder(part: Part, item: string, failure: string | undefined): string {
  const reason = part.reason?.(item) ?? failure;
  return `${part.place}: ${item}${reason === undefined ? "" : ` (${reason})`}`;
}
