/** The text of `kube-proxy status`, from what /status.json says. Pure. */
import type { FamilyJson, StatusJson } from "../app/status-json.ts";
import { printable } from "./trouble.ts";

/** Lines for a terminal; ages are as of the moment the answer was made. */
export function statusText(status: StatusJson): string {
  const { now, pending, repairs } = status;
  const last = repairs.at(-1);
  const rows: (readonly [label: string, text: string])[] = [
    [
      "Process",
      `kube-proxy ${status.version}, ${status.runtime}, pid ${status.pid}, up ${span(now - status.startedAt)}`,
    ],
    ["Mode", status.mode],
    ["Node", status.nodeName + nodeRemark(status)],
    ["Health", status.healthy ? "ok" : "NOT OK: rules are not up to date"],
    [
      "Objects from",
      `${status.source}${status.lastContact === null ? "" : `, last heard ${age(status.lastContact, now)}`}`,
    ],
    ["Pending", `${pending.services} Services, ${pending.endpoints} EndpointSlices`],
    ...status.families.flatMap((family) => familyRows(family, now)),
    ["Repairs", `${status.driftRepairs} things of ours that others had changed`],
    ...(last === undefined
      ? []
      : [
          [
            "",
            `last ${age(last.at, now)}, ${last.family}: ${last.what}${last.by === "" ? "" : ` (by ${last.by})`}`,
          ] as const,
        ]),
    ...status.warnings.map((warning) => ["Warning", warning] as const),
  ];
  return rows.map(([label, text]) => `${label.padEnd(13)} ${printable(text)}\n`).join("");
}

// --- internal ---

function nodeRemark({ nodeKnown, nodeEligible }: StatusJson): string {
  if (nodeKnown === false) return " (there is no such Node: nothing is local, see --hostname-override)";
  return nodeEligible ? "" : " (leaving: load balancers are told to send nothing)";
}

function familyRows(family: FamilyJson, now: number): readonly (readonly [string, string])[] {
  const { lastSync, dueSince, quarantined, conflicts } = family;
  const rows: (readonly [string, string])[] = [
    [family.family, `${family.services} Services, ${family.ports} ports, ${family.endpoints} endpoints`],
    ["  synced", family.lastSynced === null ? "never yet" : age(family.lastSynced, now)],
  ];
  if (dueSince !== null) rows.push(["  waiting", `changes of ${age(dueSince, now)} are not in the kernel yet`]);
  if (lastSync !== null) rows.push(["  last sync", syncText(lastSync)]);
  for (const { service, reason, since } of quarantined)
    rows.push(["  left out", `${service}, ${span(now - since)} so far: ${reason}`]);
  for (const conflict of conflicts.slice(0, 3)) rows.push(["  conflict", conflict]);
  if (conflicts.length > 3) rows.push(["", `and ${conflicts.length - 3} more conflicts`]);
  return rows;
}

function syncText(sync: NonNullable<FamilyJson["lastSync"]>): string {
  const stages = Object.entries(sync.stages).map(([name, ms]) => `${name} ${ms.toFixed(1)}`);
  const what = sync.ok ? (sync.full ? "full" : "partial") : `FAILED: ${sync.error}`;
  return `${what}, ${sync.finishedAt - sync.startedAt} ms (${stages.join(", ")})`;
}

function age(moment: number, now: number): string {
  return `${span(now - moment)} ago`;
}

/** `3.2 s`, `4 min`, `2 h 5 min`, `3 d 4 h`. */
function span(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
