/** An explanation as text that fits the terminal. */
import type { Presence } from "../explain/live.ts";
import { objectText } from "../explain/object-text.ts";
import { printDestination, type Source } from "../explain/packet.ts";
import type { EndpointLine, FamilyPage, PortPage, ServicePage } from "../explain/service-page.ts";
import type { Fate, KernelObject, Share, Step, Verdict } from "../explain/verdict.ts";
import { families } from "../model/family.ts";
import { joinHostPort } from "../model/ip.ts";
import { wrap } from "./help.ts";

/** `presence`: what --live found, by the text of the object; undefined: nobody looked. */
export function verdictText(
  verdict: Verdict,
  presence: ReadonlyMap<string, Presence> | undefined,
  width: number,
): string {
  const columns = Math.max(40, Math.min(width, 120));
  const { packet, nodeName, mode, family } = verdict;
  const lines = [
    ...wrap(`${sourceText(packet.from)} -> ${printDestination(packet.to)}`, columns, ""),
    ...wrap(`on ${nodeName}, ${mode} mode, ${family}`, columns, ""),
    "",
    ...wrap(fateText(verdict.fate), columns, ""),
    ...sharesOf(verdict.fate).slice(0, shownShares).map(shareText),
    ...(sharesOf(verdict.fate).length > shownShares
      ? [`  and ${sharesOf(verdict.fate).length - shownShares} more`]
      : []),
    "",
    ...verdict.steps.flatMap((step, i) => stepLines(step, i + 1, verdict, presence, columns)),
  ];
  return `${lines.join("\n")}\n`;
}

/** One sentence. */
export function fateText(fate: Fate): string {
  switch (fate.kind) {
    case "drop":
      return "DROPPED: the sender gets no answer.";
    case "reject":
      return "REJECTED: the sender is told at once that the port is unreachable.";
    case "pass":
      return fate.to === "host"
        ? "NOT OURS: delivered to the node's own sockets, if one listens there."
        : "NOT OURS: follows the routing table unchanged.";
    case "proxied":
      return "SERVED by this process, which connects on to one of the endpoints:";
    case "dnat": {
      if (fate.shares.every((s) => s.repliesLost)) return "SENT ON, BUT UNANSWERED: replies do not come back here.";
      return fate.shares.length === 1
        ? "SENT to this endpoint:"
        : `SENT to one of these ${fate.shares.length} endpoints:`;
    }
  }
}

export function sharesOf(fate: Fate): readonly Share[] {
  return fate.kind === "dnat" || fate.kind === "proxied" ? fate.shares : [];
}

export function servicePageText(page: ServicePage, width: number): string {
  const columns = Math.max(40, Math.min(width, 120));
  const zone = page.zone === "" ? "" : `, zone ${page.zone}`;
  const affinity = page.affinitySeconds === 0 ? "none" : `ClientIP, ${page.affinitySeconds} s`;
  const lines = [
    ...hanging(`Service ${page.service} on ${page.nodeName}${zone}, ${page.mode} mode`, columns),
    "",
    `  internalTrafficPolicy  ${page.internalTrafficPolicy}`,
    `  externalTrafficPolicy  ${page.externalTrafficPolicy}`,
    `  session affinity       ${affinity}`,
    ...page.families.flatMap((family) => ["", ...familyLines(family, columns)]),
  ];
  return `${lines.join("\n")}\n`;
}

// --- internal ---

const shownShares = 12;
const shownObjects = 8;

function sourceText({ kind, ip, assumed }: Source): string {
  const what = kind === "external" ? "outside the cluster" : kind === "pod" ? "a pod" : "the node itself";
  return `${ip} (${what}${assumed && kind !== "node" ? ", address assumed" : ""})`;
}

function shareText({ ip, port, local, probability, masqueraded, repliesLost }: Share): string {
  const where = local ? "this node" : "another node";
  const source = masqueraded ? "sees the node's address" : "sees the sender's address";
  return `  ${(probability * 100).toFixed(1).padStart(5)}%  ${joinHostPort(ip, port)}  (${where}; ${source}${repliesLost ? "; replies lost" : ""})`;
}

function stepLines(
  step: Step,
  number: number,
  { family }: Verdict,
  presence: ReadonlyMap<string, Presence> | undefined,
  columns: number,
): readonly string[] {
  const head = `${String(number).padStart(2)}. `;
  const [first = "", ...rest] = wrap(step.text, columns, "    ");
  const objects = step.objects.map((object) => objectText(object, families[family]));
  const shown = [...new Set(objects)];
  const missing = shown.filter((text) => presence?.get(text)?.state !== "there");
  // What is missing is never hidden in "and 30 more".
  const listed =
    shown.length <= shownObjects ? shown : [...new Set([...shown.slice(0, 4), ...(presence ? missing : [])])];
  return [
    head + first.trimStart(),
    ...rest,
    ...listed.map((text) => `      ${mark(presence, text)}${text}`),
    ...(listed.length < shown.length ? [`      and ${shown.length - listed.length} more like these`] : []),
  ];
}

function mark(presence: ReadonlyMap<string, Presence> | undefined, text: string): string {
  if (presence === undefined) return "";
  const found = presence.get(text);
  if (found?.state === "there") return "[there]   ";
  return found?.state === "missing" ? "[MISSING] " : `[unknown${found?.detail ? `: ${found.detail}` : ""}] `;
}

/** Wrapped, further lines indented by two. */
export function hanging(text: string, width: number, indent = ""): readonly string[] {
  const columns = Math.max(40, Math.min(width, 120));
  const [first = "", ...rest] = wrap(text, columns - indent.length - 2, "");
  return [indent + first, ...rest.map((line) => `${indent}  ${line}`)];
}

/** Objects of all steps, each once. */
export function objectsOf(verdict: Verdict): readonly KernelObject[] {
  const family = families[verdict.family];
  const all = new Map(verdict.steps.flatMap((s) => s.objects).map((o) => [objectText(o, family), o] as const));
  return [...all.values()];
}

function familyLines(page: FamilyPage, columns: number): readonly string[] {
  const list = (label: string, items: readonly string[]): readonly string[] =>
    items.length === 0 ? [] : wrapped(label, items.join(", "), columns);
  const { healthCheck } = page;
  return [
    page.family,
    ...list("cluster IP", [page.clusterIP]),
    ...list("external IPs", page.externalIPs),
    ...list("load-balancer IPs", page.loadBalancerIPs),
    ...list("source ranges", page.sourceRanges),
    ...(healthCheck === undefined
      ? []
      : wrapped(
          "health check",
          `port ${healthCheck.port}, ${healthCheck.localEndpoints} ready endpoint${healthCheck.localEndpoints === 1 ? "" : "s"} here: ${healthCheck.localEndpoints > 0 ? "200, load balancers may send here" : "503, load balancers stay away"}`,
          columns,
        )),
    ...page.conflicts.flatMap((line) => wrapped("CONFLICT", line, columns)),
    ...page.ports.flatMap((port) => portLines(port, columns)),
  ];
}

function wrapped(label: string, text: string, columns: number): readonly string[] {
  const [first = "", ...rest] = wrap(text, columns, " ".repeat(21));
  return [`  ${label.padEnd(19)}${first.trimStart()}`, ...rest];
}

const fates = {
  cluster: "endpoints of all nodes",
  local: "endpoints of this node",
  drop: "dropped: no endpoint here, others have some",
  reject: "rejected: no endpoint",
} as const;

function portLines(port: PortPage, columns: number): readonly string[] {
  const nodePort = port.nodePort === 0 ? "" : `, node port ${port.nodePort}`;
  return [
    `  port ${port.port}/${port.protocol} (${port.name})${nodePort}`,
    `    to the cluster IP   ${fates[port.internal]}`,
    ...(port.external === undefined ? [] : [`    from outside        ${fates[port.external]}`]),
    ...(port.endpoints.length === 0 ? ["    no endpoints"] : []),
    ...port.endpoints.flatMap((e) => endpointLines(e, columns)),
  ];
}

function endpointLines(e: EndpointLine, columns: number): readonly string[] {
  const where = e.local ? "here" : e.nodeName === "" ? "node unknown" : e.nodeName;
  const use = e.leftOut !== "" ? `left out: ${e.leftOut}` : usedFor(e);
  return hanging(`${e.leftOut === "" ? "+" : "-"} ${e.address} (${where}) ${use}`, columns, "    ");
}

function usedFor({ cluster, localList }: EndpointLine): string {
  if (cluster && localList) return "used for all traffic";
  return cluster ? "used for cluster-wide traffic" : "used for Local policies";
}
