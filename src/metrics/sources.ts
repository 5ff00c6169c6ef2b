/** Values that live elsewhere until a scrape asks: the kernel's packet counters, and what the app knows. */
import type { Sample, SampleSource } from "./registry.ts";

const counters: Readonly<Record<string, string>> = {
  ct_state_invalid_dropped_pkts: "kubeproxy_iptables_ct_state_invalid_dropped_packets_total",
  localhost_nps_accepted_pkts: "kubeproxy_iptables_localhost_nodeports_accepted_packets_total",
};

/** `list` answers what `nfacct list` prints. Counters of others are passed over. */
export function nfacctSource(list: () => Promise<string>): SampleSource {
  return async () => parseNfacct(await list());
}

/** Lines such as `{ pkts = 00000000000000000007, bytes = 00000000000000000420 } = localhost_nps_accepted_pkts;`. */
export function parseNfacct(text: string): readonly Sample[] {
  const samples: Sample[] = [];
  for (const [, packets, name = ""] of text.matchAll(/^\{ pkts = (\d+), bytes = \d+ \} = (\S+);$/gm)) {
    const metric = counters[name];
    if (metric) samples.push({ name: metric, value: Number(packets) });
  }
  return samples;
}

export interface AppFacts {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** When the API server was last heard, in the same unit; undefined: not yet, or no API server is used. */
  readonly lastContact: number | undefined;
  /** Whether the Node of this machine was found; undefined: not looked for. */
  readonly nodeKnown: boolean | undefined;
}

export function appSource(facts: () => AppFacts): SampleSource {
  return () => {
    const { now, lastContact, nodeKnown } = facts();
    const samples: Sample[] = [];
    if (lastContact !== undefined) {
      samples.push({ name: "kubeproxy_api_last_contact_seconds", value: Math.max(now - lastContact, 0) / 1000 });
    }
    if (nodeKnown !== undefined) samples.push({ name: "kubeproxy_node_known", value: nodeKnown ? 1 : 0 });
    return samples;
  };
}
