/** Reads this machine's Node at start, where "not registered yet" and "API server not there" are different news. */
import type { Log } from "../model/log.ts";
import type { NodeInfo } from "../model/node.ts";
import { parseNode } from "../model/node-parse.ts";
import { ApiError } from "./api-error.ts";
import { KubeconfigError } from "./cluster-access.ts";
import { BackOff, pause } from "./pause.ts";
import type { Transport } from "./transport.ts";

export type NodeAnswer =
  | { readonly kind: "found"; readonly node: NodeInfo }
  /** The server says that there is no such Node, or it is not as wanted yet (then `node` is what there is). */
  | { readonly kind: "missing"; readonly node: NodeInfo | undefined }
  /** No usable answer: `error` is one printable line. */
  | { readonly kind: "unreachable"; readonly error: string };

/** One GET. Never throws for what the API server says or does not say; KubeconfigError passes. */
export async function getNode(transport: Transport, name: string, signal: AbortSignal): Promise<NodeAnswer> {
  const request = { verb: "get", resource: "nodes", path: `/api/v1/nodes/${encodeURIComponent(name)}` } as const;
  try {
    const node = parseNode(await transport.request({ ...request, signal, timeoutMs: 10_000 })).value;
    return node === undefined ? { kind: "missing", node: undefined } : { kind: "found", node };
  } catch (error) {
    if (error instanceof KubeconfigError || !(error instanceof ApiError)) throw error;
    if (error.facts.status === 404) return { kind: "missing", node: undefined };
    return { kind: "unreachable", error: error.message };
  }
}

export interface NodeWait {
  readonly transport: Transport;
  readonly name: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** How long to wait for a Node that is `accept`ed; an API server that does not answer is waited for without limit. */
  readonly timeoutMs: number;
  /** Default: any. E.g. has addresses, has pod CIDRs. */
  readonly accept?: (node: NodeInfo) => boolean;
  /** What is waited for, for the log, e.g. `addresses`. */
  readonly wanted?: string;
  /** First and longest pause between tries, default 500 and 5,000 ms. */
  readonly backOff?: { readonly first: number; readonly most: number };
}

/**
 * Asks until the Node is as wanted, `timeoutMs` of answers without it are over, or the signal is aborted; gives the last
 * answer. Only time in which the server answers counts, so a proxy that starts before its API server just waits.
 */
export async function waitForNode(wait: NodeWait): Promise<NodeAnswer> {
  const backOff = new BackOff(wait.backOff?.first ?? 500, wait.backOff?.most ?? 5_000);
  const wanted = wait.wanted ?? "registration";
  let since: number | undefined;
  let said = "";
  for (;;) {
    const answer = await getNode(wait.transport, wait.name, wait.signal);
    if (answer.kind === "found" && (wait.accept?.(answer.node) ?? true)) return answer;
    const last: NodeAnswer = answer.kind === "found" ? { kind: "missing", node: answer.node } : answer;
    if (last.kind === "unreachable") since = undefined;
    else since ??= performance.now();
    const expired = since !== undefined && performance.now() - since >= wait.timeoutMs;
    if (expired || wait.signal.aborted) return last;
    const news = last.kind === "unreachable" ? last.error : `no ${wanted} yet`;
    if (news !== said) wait.log.warn("Waiting for the Node", { node: wait.name, reason: news });
    said = news;
    await pause(backOff.next(), wait.signal);
  }
}
