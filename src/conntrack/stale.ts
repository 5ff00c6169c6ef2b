/** Which UDP flows are stale, why, and the classes they are deleted by. */
import type { UdpFlow } from "../tools/conntrack.ts";
import { addressKey, type FrontendKey, type Frontends, nodePortKey } from "./frontends.ts";

/**
 * `endpoint`: it answers from something that no longer serves · `untranslated`: it began when there was no rule or no
 * endpoint, and would stay so · `frontend`: its Service, port or address went away.
 */
export type Reason = "endpoint" | "untranslated" | "frontend";

export type Verdict =
  | { readonly kind: "foreign" }
  | { readonly kind: "healthy" }
  | {
      readonly kind: "stale";
      readonly reason: Reason;
      /** PortPlan name. */
      readonly service: string;
      /** No flow to this destination can be healthy: it has no owner, or its owner has no endpoint. */
      readonly whole: boolean;
    };

/** Frontends that nobody has any more, by key, with the port's name; kept until a clean-up succeeded. */
export type Retired = ReadonlyMap<FrontendKey, string>;

const foreign: Verdict = { kind: "foreign" };
const healthy: Verdict = { kind: "healthy" };

/** A flow is ours only when its destination address and port both are; a living owner comes before a retired one. */
export function judge(flow: UdpFlow, frontends: Frontends, retired: Retired): Verdict {
  const key = addressKey(flow.dst, flow.dport);
  const portKey = nodePortKey(flow.dport);
  const translated = flow.replySrc !== flow.dst;
  const has = (one: FrontendKey) => frontends.owners.has(one) || retired.has(one);
  const onNodePort = has(portKey) && frontends.isNodePortAddress(flow.dst, translated);
  // Deleting the whole destination would take what is not translated with it: only where that is ours too.
  const wholeAllowed = has(key) || frontends.isNodePortAddress(flow.dst, false);
  const owner = frontends.owners.get(key) ?? (onNodePort ? frontends.owners.get(portKey) : undefined);
  if (owner !== undefined) {
    if (owner.backends.has(addressKey(flow.replySrc, flow.replySport))) return healthy;
    const reason = translated || flow.replySport !== flow.dport ? "endpoint" : "untranslated";
    return { kind: "stale", reason, service: owner.name, whole: wholeAllowed && owner.backends.size === 0 };
  }
  const former = retired.get(key) ?? (onNodePort ? retired.get(portKey) : undefined);
  if (former === undefined) return foreign;
  return { kind: "stale", reason: "frontend", service: former, whole: wholeAllowed };
}

/** Flows that are deleted by one command: all to a destination (`whole`), or those that answer from one place. */
export interface StaleClass {
  /** The first of them. */
  readonly flow: UdpFlow;
  readonly whole: boolean;
  readonly service: string;
  readonly reason: Reason;
  readonly count: number;
}

export interface Sorted {
  /** Largest first: most relief early. */
  readonly stale: readonly StaleClass[];
  /** Flows of our frontends that stay. */
  readonly healthy: number;
}

/** Takes flows one by one; memory grows with the number of stale classes, not of flows. */
export class FlowSorter {
  readonly #classes = new Map<string, { -readonly [K in keyof StaleClass]: StaleClass[K] }>();
  #healthy = 0;

  constructor(
    readonly frontends: Frontends,
    readonly retired: Retired,
  ) {}

  add(flow: UdpFlow): void {
    const verdict = judge(flow, this.frontends, this.retired);
    if (verdict.kind === "healthy") this.#healthy++;
    if (verdict.kind !== "stale") return;
    const { service, reason, whole } = verdict;
    const to = addressKey(flow.dst, flow.dport);
    const key = whole ? to : `${to} ${addressKey(flow.replySrc, flow.replySport)}`;
    const known = this.#classes.get(key);
    if (known !== undefined) known.count++;
    else this.#classes.set(key, { flow, whole, service, reason, count: 1 });
  }

  result(): Sorted {
    return { stale: [...this.#classes.values()].sort((a, b) => b.count - a.count), healthy: this.#healthy };
  }
}

/** `41 of dns/kube-dns:dns (endpoint 10.1.0.2 gone), 2 of …`: at most five Services, then how many more. */
export function describeStale(stale: readonly StaleClass[]): string {
  const groups = new Map<string, { count: number; about: string; ips: Set<string> }>();
  for (const { service, reason, count, flow, whole } of stale) {
    const key = `${service} ${reason}`;
    const group = groups.get(key) ?? { count: 0, about: service, ips: new Set<string>() };
    group.count += count;
    if (reason === "endpoint") group.ips.add(whole ? "" : flow.replySrc);
    groups.set(key, group);
  }
  const texts = [...groups].map(([key, group]) => {
    const reason = key.slice(group.about.length + 1);
    return `${group.count} of ${group.about} (${explain(reason, [...group.ips])})`;
  });
  const more = texts.length > 5 ? [`${texts.length - 5} more Services`] : [];
  return [...texts.slice(0, 5), ...more].join(", ");
}

function explain(reason: string, ips: readonly string[]): string {
  if (reason === "frontend") return "port, address or Service gone";
  if (reason === "untranslated") return "never sent to an endpoint";
  if (ips.includes("")) return "no endpoint left";
  const shown = ips.slice(0, 3).join(", ");
  return ips.length > 3
    ? `endpoints ${shown} and ${ips.length - 3} more gone`
    : `endpoint${ips.length > 1 ? "s" : ""} ${shown} gone`;
}
