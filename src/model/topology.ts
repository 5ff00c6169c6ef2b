/** Which ready endpoints this node should use: hints for its name first, then for its zone, else all. */
import type { SliceEndpoint } from "./endpoint-slice.ts";

export type TopologyCut = "node" | "zone" | "none";

/**
 * A level counts only when every ready endpoint carries hints of it and at least one names this node (zone). Hints of
 * unready endpoints do not count (kubernetes#106507).
 */
export function topologyCut(endpoints: readonly SliceEndpoint[], nodeName: string, zone: string): TopologyCut {
  const ready = endpoints.filter((e) => e.ready);
  const level = (hints: (e: SliceEndpoint) => readonly string[], own: string): boolean =>
    own !== "" && ready.every((e) => hints(e).length > 0) && ready.some((e) => hints(e).includes(own));
  if (level((e) => e.nodeHints, nodeName)) return "node";
  return level((e) => e.zoneHints, zone) ? "zone" : "none";
}

/** Whether the endpoint is left when the cut is made; `none` leaves all. */
export function withinCut(endpoint: SliceEndpoint, cut: TopologyCut, nodeName: string, zone: string): boolean {
  if (cut === "none") return true;
  return cut === "node" ? endpoint.nodeHints.includes(nodeName) : endpoint.zoneHints.includes(zone);
}
