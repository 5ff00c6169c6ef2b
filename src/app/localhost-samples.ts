/** The three metrics of nftables mode's node ports on localhost. */
import { rejectedPackets } from "../backends/nftables/localhost.ts";
import type { Sample } from "../metrics/registry.ts";
import type { Context } from "../model/context.ts";
import type { LocalhostNodePorts } from "./localhost-node-ports.ts";
import type { RunSteps } from "./modes.ts";
import { readKernel } from "./read.ts";

const prefix = "kubeproxy_nftables_localhost_nodeport_";

/** Read at a scrape: the packet counts come from the kernel. */
export async function localhostSamples(
  context: Context,
  ports: LocalhostNodePorts,
  run: RunSteps,
): Promise<readonly Sample[]> {
  const labels = { ip_family: context.family.name };
  const reading = rejectedPackets(context);
  const rejected = await readKernel(reading, run);
  return [
    { name: `${prefix}listeners`, labels, value: ports.listeners },
    { name: `${prefix}listener_creation_failures_total`, labels, value: ports.failures },
    ...[...rejected].map(([protocol, value]) => ({
      name: `${prefix}rejected_packets_total`,
      labels: { ...labels, protocol },
      value,
    })),
  ];
}
