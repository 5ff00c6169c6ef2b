/** From the JSON of an EndpointSlice to what the rules need of it, with remarks about what had to be left out. */
import type { EndpointSlice, SliceEndpoint, SlicePort } from "./endpoint-slice.ts";
import type { FamilyName } from "./family.ts";
import { familyOf, isLoopback, isUnspecified, parseIP } from "./ip.ts";
import { asBoolean, asInteger, asList, asName, asText, asTime, dig, field, show } from "./json.ts";
import type { Note, Parsed } from "./note.ts";
import { parsePortName, parseProtocol } from "./service-parse.ts";

/** No value and no notes for slices that never give rules (FQDN, headless label, no Service). */
export function parseEndpointSlice(raw: unknown): Parsed<EndpointSlice> {
  const namespace = asName(dig(raw, "metadata", "namespace"));
  const name = asName(dig(raw, "metadata", "name"));
  const object = `${namespace ?? show(dig(raw, "metadata", "namespace"))}/${name ?? show(dig(raw, "metadata", "name"))}`;
  const notes: Note[] = [];
  const note = (path: string, message: string): void => {
    notes.push({ kind: "EndpointSlice", object, field: path, message });
  };
  if (namespace === undefined || name === undefined) {
    note("metadata.name", "not a valid name: left out");
    return { value: undefined, notes };
  }
  const labels = dig(raw, "metadata", "labels");
  const service = asName(field(labels, "kubernetes.io/service-name"));
  const type = field(raw, "addressType");
  if (service === undefined || type === "FQDN" || field(labels, "service.kubernetes.io/headless") !== undefined)
    return { value: undefined, notes };
  if (type !== "IPv4" && type !== "IPv6") {
    note("addressType", `${show(type)} is not IPv4, IPv6 or FQDN: the slice is left out`);
    return { value: undefined, notes };
  }
  const value: EndpointSlice = {
    namespace,
    name,
    serviceKey: `${namespace}/${service}`,
    family: type,
    ports: slicePorts(raw, note),
    endpoints: sliceEndpoints(raw, type, note),
    lastChange: asTime(dig(raw, "metadata", "annotations", "endpoints.kubernetes.io/last-change-trigger-time")) ?? 0,
  };
  return { value, notes };
}

// --- internal ---

type Remark = (path: string, message: string) => void;
const none: readonly string[] = [];

function slicePorts(raw: unknown, note: Remark): readonly SlicePort[] {
  const out: SlicePort[] = [];
  for (const [i, item] of asList(field(raw, "ports")).entries()) {
    const name = parsePortName(field(item, "name"));
    const protocol = parseProtocol(field(item, "protocol"));
    const port = asInteger(field(item, "port"), 1, 65535);
    // A slice port without number means "all ports" to other consumers; a proxy cannot use it.
    if (name === undefined || protocol === undefined || port === undefined)
      note(`ports[${i}]`, `${show(item)} has no usable name, protocol or port: left out`);
    else out.push({ name, protocol, port });
  }
  return out;
}

function sliceEndpoints(raw: unknown, family: FamilyName, note: Remark): readonly SliceEndpoint[] {
  const out: SliceEndpoint[] = [];
  for (const [i, item] of asList(field(raw, "endpoints")).entries()) {
    // Only the first address is meant (the API gives exactly one).
    const text = asText(asList(field(item, "addresses"))[0]) ?? "";
    const ip = parseIP(text);
    const path = `endpoints[${i}].addresses[0]`;
    if (ip === undefined) note(path, `${show(text)} is not an IP address: endpoint left out`);
    else if (familyOf(ip) !== family) note(path, `${ip} is not ${family}: endpoint left out`);
    else if (isLoopback(ip) || isUnspecified(ip)) note(path, `${ip} cannot be an endpoint: left out`);
    else out.push(sliceEndpoint(item, ip));
  }
  return out;
}

function sliceEndpoint(item: unknown, ip: string): SliceEndpoint {
  const conditions = field(item, "conditions");
  const ready = asBoolean(field(conditions, "ready")) ?? true;
  return {
    ip,
    nodeName: asText(field(item, "nodeName")) ?? "",
    ready,
    serving: asBoolean(field(conditions, "serving")) ?? ready,
    terminating: asBoolean(field(conditions, "terminating")) ?? false,
    zoneHints: hintNames(dig(item, "hints", "forZones")),
    nodeHints: hintNames(dig(item, "hints", "forNodes")),
  };
}

/** The shared empty list for the usual case: 100,000 endpoints must not hold 200,000 empty arrays. */
function hintNames(value: unknown): readonly string[] {
  const names = asList(value).map((h) => asText(field(h, "name")) ?? "");
  return names.length === 0 ? none : names;
}
