/** A kernel object as one line for people, close to what its tool prints. */
import { device } from "../backends/ipvs/names.ts";
import type { Family } from "../model/family.ts";
import { TABLE } from "../tools/nft.ts";
import type { KernelObject } from "./verdict.ts";

/** Holds no control characters: all parts are names that we made, addresses and numbers. */
export function objectText(object: KernelObject, family: Family): string {
  switch (object.tool) {
    case "iptables":
      return [family.iptables, "-t", object.table, object.chain, ...(object.words ?? [])].join(" ");
    case "nft":
      return object.kind === "chain"
        ? `nft chain ${family.nft} ${TABLE} ${object.name}`
        : `nft ${object.kind} ${family.nft} ${TABLE} ${object.name} { ${object.key} }`;
    case "ipset":
      return `ipset ${object.set} ${object.entry}`;
    case "ipvsadm":
      return `ipvs ${object.protocol} ${object.at}${object.real === undefined ? "" : ` -> ${object.real}`}`;
    case "ip":
      return `address ${object.address} on ${device}`;
  }
}
