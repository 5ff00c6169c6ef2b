/** Which Node we are, and what to do when the API server does not know it (yet). */
import { hostname } from "node:os";
import type { Config } from "../config/config.ts";
import { waitForNode } from "../kube/node-wait.ts";
import type { Transport } from "../kube/transport.ts";
import type { Log } from "../model/log.ts";
import type { NodeInfo } from "../model/node.ts";

/** `--hostname-override` or the machine's name, trimmed and in lower case as the kubelet registers it. */
export function nodeNameOf(config: Config): string {
  return (config.hostnameOverride === "" ? hostname() : config.hostnameOverride).trim().toLowerCase();
}

export interface NodeStart {
  readonly config: Config;
  readonly nodeName: string;
  readonly transport: Transport;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Milliseconds; for tests. */
  readonly patience?: { readonly addresses: number; readonly podCIDRs: number };
}

/**
 * The Node, or what there is of it when patience ends. A proxy that gave up would deadlock with a cloud agent that sets
 * the Node's address through a Service (cloud-provider-azure#9266): so go on with what there is, loudly.
 */
export async function startNode(start: NodeStart): Promise<NodeInfo | undefined> {
  const { config, nodeName, transport, log, signal } = start;
  const patience = start.patience ?? { addresses: 30_000, podCIDRs: 300_000 };
  const wait = { transport, name: nodeName, log, signal };
  const first = await waitForNode({
    ...wait,
    timeoutMs: patience.addresses,
    accept: (node) => node.addresses.length > 0,
    wanted: "addresses",
  });
  let node = first.kind === "unreachable" ? undefined : first.node;
  if (signal.aborted) return node;
  if (node === undefined) {
    const source = config.hostnameOverride === "" ? "this machine's host name" : "hostnameOverride";
    log.error(
      "No Node has this name: endpoints on this node are not seen as local, so Local traffic policies, topology hints and health check node ports do not work. Set --hostname-override to the Node's name",
      { node: nodeName, from: source },
    );
    return undefined;
  }
  if (node.addresses.length === 0)
    log.error("The Node has no address: a loopback stand-in is used until it gets one", { node: nodeName });
  if (config.detectLocalMode !== "NodeCIDR" || node.podCIDRs.length > 0) return node;
  const second = await waitForNode({
    ...wait,
    timeoutMs: patience.podCIDRs,
    accept: (n) => n.podCIDRs.length > 0,
    wanted: "pod CIDRs (detectLocalMode is NodeCIDR)",
  });
  if (second.kind !== "unreachable" && second.node !== undefined) node = second.node;
  if (node.podCIDRs.length === 0)
    log.error(
      "The Node has no pod CIDRs though detectLocalMode is NodeCIDR: traffic of pods is not told from other traffic until it gets some",
      { node: nodeName },
    );
  return node;
}
