/** From the JSON of a Node or a ServiceCIDR to what the proxy needs of it. */
import { parseCIDR, parseIP } from "./ip.ts";
import { asList, asName, asText, dig, field, show } from "./json.ts";
import type { NodeInfo } from "./node.ts";
import type { Note, Parsed } from "./note.ts";

/** Addresses that are no IP address (host names, DNS names) are left out without a remark. */
export function parseNode(raw: unknown): Parsed<NodeInfo> {
  const name = asName(dig(raw, "metadata", "name"));
  if (name === undefined) return { value: undefined, notes: [badName("Node", raw)] };
  const notes: Note[] = [];
  const cidrs = asList(dig(raw, "spec", "podCIDRs"));
  const podCIDRs = (cidrs.length > 0 ? cidrs : [dig(raw, "spec", "podCIDR")]).filter((c) => asText(c) !== undefined);
  const value: NodeInfo = {
    name,
    uid: asText(dig(raw, "metadata", "uid")) ?? "",
    addresses: [...addressesOf(raw, "InternalIP"), ...addressesOf(raw, "ExternalIP")],
    podCIDRs: podCIDRs.flatMap((c) => {
      const cidr = parseCIDR(asText(c) ?? "");
      if (cidr !== undefined) return [cidr];
      if (c !== "")
        notes.push({
          kind: "Node",
          object: name,
          field: "spec.podCIDRs",
          message: `${show(c)} is not a CIDR: left out`,
        });
      return [];
    }),
    zone: asText(dig(raw, "metadata", "labels", "topology.kubernetes.io/zone")) ?? "",
    deleting: asText(dig(raw, "metadata", "deletionTimestamp")) !== undefined,
    toBeDeleted: asList(dig(raw, "spec", "taints")).some((t) => field(t, "key") === "ToBeDeletedByClusterAutoscaler"),
  };
  return { value, notes };
}

/** The canonical CIDRs of one ServiceCIDR object; none while it is being deleted. */
export function parseServiceCIDR(raw: unknown): Parsed<readonly string[]> {
  const name = asName(dig(raw, "metadata", "name"));
  if (name === undefined) return { value: undefined, notes: [badName("ServiceCIDR", raw)] };
  if (asText(dig(raw, "metadata", "deletionTimestamp")) !== undefined) return { value: [], notes: [] };
  const notes: Note[] = [];
  const value = asList(dig(raw, "spec", "cidrs")).flatMap((c) => {
    const cidr = parseCIDR(asText(c) ?? "");
    if (cidr !== undefined) return [cidr];
    notes.push({
      kind: "ServiceCIDR",
      object: name,
      field: "spec.cidrs",
      message: `${show(c)} is not a CIDR: left out`,
    });
    return [];
  });
  return { value, notes };
}

// --- internal ---

function addressesOf(raw: unknown, type: string): readonly string[] {
  return asList(dig(raw, "status", "addresses"))
    .filter((a) => field(a, "type") === type)
    .flatMap((a) => parseIP(asText(field(a, "address")) ?? "") ?? []);
}

function badName(kind: Note["kind"], raw: unknown): Note {
  return {
    kind,
    object: show(dig(raw, "metadata", "name")),
    field: "metadata.name",
    message: "not a valid name: left out",
  };
}
