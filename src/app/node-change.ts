/** What a change of our Node object means: nothing, a new plan, or the end of the process. No side effects. */
import type { NodeInfo } from "../model/node.ts";
import { type ContextInputs, nodeIdentity } from "./contexts.ts";

export interface NodeChange {
  /** End the process with this message: the supervisor starts it anew. */
  readonly exit?: string;
  /** Plan anew with these. */
  readonly inputs?: ContextInputs;
  readonly note?: string;
}

/**
 * Labels, pod CIDRs and addresses are re-planned in place. A deleted Node ends the process (a new one of that name is
 * another machine's business until it is registered), and so does another primary family.
 */
export function nodeChange(known: ContextInputs, node: NodeInfo | undefined): NodeChange {
  if (node === undefined) {
    return known.node === undefined ? {} : { exit: `the Node ${known.nodeName} was deleted; exiting to start anew` };
  }
  if (known.node !== undefined && sameForUs(known.node, node)) return {};
  const identity = nodeIdentity(node, known.config.bindAddress);
  if (known.node !== undefined && identity.primary !== known.identity.primary) {
    const change = `${known.identity.primary} to ${identity.primary}`;
    return { exit: `the primary IP family of Node ${known.nodeName} changed from ${change}; exiting to start anew` };
  }
  const note = known.node === undefined ? "The Node is known now" : "The Node changed: planning anew";
  return { inputs: { ...known, node, identity }, note };
}

// --- internal ---

function sameForUs(a: NodeInfo, b: NodeInfo): boolean {
  const facts = ({ addresses, podCIDRs, zone }: NodeInfo): string => JSON.stringify([addresses, podCIDRs, zone]);
  return facts(a) === facts(b);
}
