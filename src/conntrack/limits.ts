/** Conntrack limits and timeouts: from what is wanted and what the kernel has now, to what must be written. */

export interface ConntrackSettings {
  /** Entries per CPU; 0: leave the table's size alone (then `min` counts for nothing). */
  readonly maxPerCore: number;
  readonly min: number;
  /** Seconds; 0: leave. */
  readonly tcpEstablishedTimeout: number;
  readonly tcpCloseWaitTimeout: number;
  readonly udpTimeout: number;
  readonly udpStreamTimeout: number;
  readonly tcpBeLiberal: boolean;
}

/** One value under net/netfilter. */
export interface WantedSetting {
  /** e.g. `nf_conntrack_max`. */
  readonly file: string;
  readonly value: number;
  /** `below`: never lowered. */
  readonly when: "differs" | "below";
  /** Configuration fields to change so that it is not asked for. */
  readonly field: string;
  /** What to put there. */
  readonly leave: string;
}

/** What the configuration asks for on a machine with so many CPUs; empty when it asks for nothing. */
export function wantedSettings(settings: ConntrackSettings, cpus: number): readonly WantedSetting[] {
  const timeout = (file: string, value: number, field: string): readonly WantedSetting[] =>
    value > 0 ? [{ file, value: Math.ceil(value), when: "differs", field, leave: "0s" }] : [];
  const max = wantedMax(settings, cpus);
  return [
    ...(max > 0
      ? [{ file: "nf_conntrack_max", value: max, when: "below", field: "conntrack.maxPerCore", leave: "0" } as const]
      : []),
    ...timeout(
      "nf_conntrack_tcp_timeout_established",
      settings.tcpEstablishedTimeout,
      "conntrack.tcpEstablishedTimeout",
    ),
    ...timeout("nf_conntrack_tcp_timeout_close_wait", settings.tcpCloseWaitTimeout, "conntrack.tcpCloseWaitTimeout"),
    ...(settings.tcpBeLiberal
      ? [
          {
            file: "nf_conntrack_tcp_be_liberal",
            value: 1,
            when: "differs",
            field: "conntrack.tcpBeLiberal",
            leave: "false",
          } as const,
        ]
      : []),
    ...timeout("nf_conntrack_udp_timeout", settings.udpTimeout, "conntrack.udpTimeout"),
    ...timeout("nf_conntrack_udp_timeout_stream", settings.udpStreamTimeout, "conntrack.udpStreamTimeout"),
  ];
}

/** Table size wanted; 0: leave. */
export function wantedMax(settings: ConntrackSettings, cpus: number): number {
  return settings.maxPerCore > 0 ? Math.max(settings.min, settings.maxPerCore * cpus) : 0;
}

export type SettingDecision = "write" | "keep" | "absent";

/** `current` undefined: the file does not exist (the module is not loaded). */
export function decide(wanted: WantedSetting, current: number | undefined): SettingDecision {
  if (current === undefined) return "absent";
  const satisfied = wanted.when === "below" ? current >= wanted.value : current === wanted.value;
  return satisfied ? "keep" : "write";
}

/** A value that could not be written: fatal only when the kernel gives less than was asked for. */
export function isFatal(wanted: WantedSetting, current: number): boolean {
  return current < wanted.value;
}

/** One hash bucket for four entries, as kube-proxy sizes the table; undefined: large enough. */
export function wantedBuckets(max: number, current: number): number | undefined {
  const buckets = Math.floor(max / 4);
  return max > 0 && current < buckets ? buckets : undefined;
}
