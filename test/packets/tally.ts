/** What is asked of a run of the table, and what it counts. */
import type { FamilyName } from "../../src/model/family.ts";
import type { Mode } from "./row.ts";

export interface RunRequest {
  readonly mode: Mode;
  readonly families: readonly FamilyName[];
  readonly compact: boolean;
  /** Only rows and stories whose name contains this. */
  readonly only: string;
  readonly parts: readonly ("table" | "stories")[];
  /** Shell command for node-1 when rows are programmed; empty: none. */
  readonly inspect: string;
  readonly log: (line: string) => void;
}

export interface Tally {
  readonly packets: number;
  readonly connections: number;
  readonly stories: number;
  readonly faults: readonly string[];
}

export type Tallies = Map<FamilyName, Tally>;

export function addTo(
  tallies: Tallies,
  family: FamilyName,
  more: { packets?: number; connections?: number; stories?: number; faults: readonly string[] },
): void {
  const old = tallies.get(family);
  if (old !== undefined) {
    tallies.set(family, {
      packets: old.packets + (more.packets ?? 0),
      connections: old.connections + (more.connections ?? 0),
      stories: old.stories + (more.stories ?? 0),
      faults: [...old.faults, ...more.faults],
    });
  }
}
