/** Texts of /statusz, /flagz and /metrics/slis, as kube-proxy words them. Pure. */

export interface StatusFacts {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly now: number;
  /** `1.37.0`. */
  readonly version: string;
  readonly runtime: string;
  readonly paths: readonly string[];
  /** What else there is to say, in order: mode, node, last API contact, last sync, pending changes, … */
  readonly lines: readonly (readonly [label: string, value: string])[];
}

const warning =
  "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

export function statuszText(facts: StatusFacts): string {
  const lines = [
    `Started: ${unixDate(facts.startedAt)}`,
    `Up: ${upTime(facts.now - facts.startedAt)}`,
    `Bun version: ${facts.runtime}`,
    `Binary version: ${facts.version}`,
    `Emulation version: ${facts.version.split(".").slice(0, 2).join(".")}`,
    `Paths: ${[...facts.paths].sort().join(" ")}`,
    ...facts.lines.map(([label, value]) => `${label}: ${oneLine(value)}`),
  ];
  return `\nkube-proxy statusz\n${warning}\n\n${lines.join("\n")}\n`;
}

/** What an operator asks first; times in milliseconds since the epoch. */
export interface ProxyFacts {
  readonly mode: string;
  readonly nodeName: string;
  /** Undefined: not looked for. */
  readonly nodeKnown: boolean | undefined;
  /** URL of the API server, or the folder of manifests. */
  readonly source: string;
  readonly lastContact: number | undefined;
  readonly families: readonly {
    readonly family: string;
    readonly lastSynced: number | undefined;
    readonly dueSince: number | undefined;
    /** Of the last sync, when it failed. */
    readonly error: string | undefined;
    /** Service keys left out, and why. */
    readonly quarantined: readonly { readonly service: string; readonly reason: string }[];
  }[];
  readonly pending: { readonly services: number; readonly endpoints: number };
}

/** Lines for `StatusFacts.lines`. */
export function proxyLines(facts: ProxyFacts, now: number): StatusFacts["lines"] {
  const known = facts.nodeKnown === false ? " (no such Node: Local traffic policies and health checks are off)" : "";
  const lines: [string, string][] = [
    ["Mode", facts.mode],
    ["Node", facts.nodeName + known],
    ["Objects from", facts.source],
    ["Last API contact", ago(facts.lastContact, now)],
    ["Pending changes", `${facts.pending.services} Services, ${facts.pending.endpoints} endpoint slices`],
  ];
  for (const { family, lastSynced, dueSince, error, quarantined } of facts.families) {
    lines.push([`${family} last sync`, ago(lastSynced, now)]);
    if (dueSince !== undefined) lines.push([`${family} sync due since`, ago(dueSince, now)]);
    if (error !== undefined) lines.push([`${family} last error`, error]);
    for (const { service, reason } of quarantined) lines.push([`${family} left out`, `${service}: ${reason}`]);
  }
  return lines;
}

/** `flags`: every flag of the command line and its value in effect before the configuration file. */
export function flagzText(flags: ReadonlyMap<string, string>): string {
  const lines = [...flags].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, value]) => `${name}: ${oneLine(value)}`);
  return `\nkube-proxy flagz\n${warning}\n${lines.join("\n")}\n`;
}

/** The age of a moment, for status lines: `3.2s ago`, `never`. */
export function ago(moment: number | undefined, now: number): string {
  return moment === undefined ? "never" : `${(Math.max(now - moment, 0) / 1000).toFixed(1)}s ago`;
}

/** `count`: pings so far, this one included. */
export function slisText(count: number, startSeconds: number | undefined): string {
  const lines = [
    "# HELP kubernetes_healthcheck [STABLE] Result of one health check, 1 for success",
    "# TYPE kubernetes_healthcheck gauge",
    'kubernetes_healthcheck{name="ping",type="healthz"} 1',
    "# HELP kubernetes_healthchecks_total [STABLE] Results of all health checks",
    "# TYPE kubernetes_healthchecks_total counter",
    `kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} ${count}`,
  ];
  if (startSeconds !== undefined) {
    lines.push(
      "# HELP process_start_time_seconds [ALPHA] Start of the process, seconds since the epoch",
      "# TYPE process_start_time_seconds gauge",
      `process_start_time_seconds ${startSeconds}`,
    );
  }
  return `${lines.join("\n")}\n`;
}

/** `Mon Nov 30 12:48:30 UTC 2026`. */
function unixDate(ms: number): string {
  const [day = "", date = "", month = "", year = "", time = ""] = new Date(ms)
    .toUTCString()
    .replace(",", "")
    .split(" ");
  return `${day} ${month} ${date.replace(/^0/, " ")} ${time} UTC ${year}`;
}

function upTime(ms: number): string {
  const seconds = Math.max(Math.floor(ms / 1000), 0);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${Math.floor(seconds / 3600)} hr ${two(Math.floor(seconds / 60) % 60)} min ${two(seconds % 60)} sec`;
}

function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\u2028\u2029]/gu, " ");
}
