/** What ipvs mode keeps outside of chains as sections: virtual servers, sets and the addresses of kube-ipvs0. */

import type { FamilyName } from "../model/family.ts";
import { familyOf } from "../model/ip.ts";
import { parseAddresses } from "./ip-address.ts";
import { parseSetLine } from "./ipset.ts";
import { parseServerLine, serverKey } from "./ipvsadm.ts";
import { type Section, sorted } from "./section.ts";

/** From `ipvsadm -Sn`: one section a virtual server. Servers with weight 0 drain and are gone soon. */
export function ipvsSections(saved: string, family: FamilyName, foreign: (ip: string) => boolean): readonly Section[] {
  const servers = new Map<string, string[]>();
  for (const text of saved.split("\n").map((line) => line.trim())) {
    const line = parseServerLine(text);
    if (line === undefined || familyOf(line.server.ip) !== family || foreign(line.server.ip)) continue;
    const key = `ipvs ${serverKey(line.server)}`;
    if (line.kind === "-A") servers.set(key, [text]);
    if (line.kind === "-a" && line.weight !== 0) servers.get(key)?.push(text);
  }
  return [...servers].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, lines]) => sorted(name, lines));
}

/** From `ipset save`: one section a set of ours. Sizes of hash tables and their seeds differ by history. */
export function ipsetSections(saved: string, owns: (set: string) => boolean): readonly Section[] {
  const sets = new Map<string, string[]>();
  for (const text of saved.split("\n")) {
    const line = parseSetLine(text);
    const name = line?.kind === "create" ? line.set.name : line?.kind === "add" ? line.name : "";
    if (name === "" || !owns(name)) continue;
    const lines = sets.get(name) ?? [];
    lines.push(text.trim().replace(/ (initval|bucketsize|hashsize) \S+/g, ""));
    sets.set(name, lines);
  }
  return [...sets].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, lines]) => sorted(`ipset ${name}`, lines));
}

/** From `ip -o addr show dev kube-ipvs0`. */
export function addressSections(device: string, shown: string): readonly Section[] {
  const addresses = parseAddresses(shown);
  return addresses.length === 0 ? [] : [sorted(`addresses of ${device}`, addresses)];
}
