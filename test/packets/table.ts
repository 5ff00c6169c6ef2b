/** The packet table: pure data, so that real connections, the walker and `explain` can all be held against it. */
import type { FamilyName } from "../../src/model/family.ts";
import { type Fate, fateIn, type Mode, type Packet, type Row } from "./row.ts";
import { endpoints } from "./table/endpoints.ts";
import { paths } from "./table/paths.ts";
import { policies } from "./table/policies.ts";

export const table: readonly Row[] = [...paths, ...policies, ...endpoints];

export interface Case {
  readonly row: Row;
  readonly packet: Packet;
  readonly fate: Fate;
}

/** All packets of the rows that apply to one mode and family, with their fates there. */
export function casesOf(rows: readonly Row[], mode: Mode, family: FamilyName): readonly Case[] {
  return rows
    .filter((row) => row.modes?.includes(mode) ?? true)
    .flatMap((row) =>
      row.packets
        .filter((packet) => packet.families?.includes(family) ?? true)
        .map((packet) => ({ row, packet, fate: fateIn(packet, mode) })),
    );
}
