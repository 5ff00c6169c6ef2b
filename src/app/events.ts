/** Events on our Node: what an administrator should find there without reading logs. */

import { EventRecorder } from "../kube/events.ts";
import type { Transport } from "../kube/transport.ts";
import type { ProxyMode } from "../model/context.ts";
import type { Log } from "../model/log.ts";

export interface ProxyEvents {
  started(modeSet: boolean, mode: ProxyMode): void;
  /** A Warning event; `reason` in CamelCase. */
  warn(reason: string, message: string): void;
}

/** Without a transport (manifests) nothing is recorded. */
export function createEvents(
  transport: Transport | undefined,
  nodeName: string,
  log: Log,
  signal: AbortSignal,
): ProxyEvents {
  if (transport === undefined) return { started: () => {}, warn: () => {} };
  const recorder = new EventRecorder({ transport, nodeName, log, signal });
  return {
    started(modeSet, mode) {
      recorder.record({ type: "Normal", reason: "Starting", action: "StartKubeProxy", note: "" });
      if (!modeSet)
        recorder.record({
          type: "Warning",
          reason: "KubeProxyDefaultMode",
          action: "StartKubeProxy",
          note: "No proxy mode is set: iptables is used. The default changes to nftables in Kubernetes 1.40.",
        });
      if (mode === "ipvs")
        recorder.record({
          type: "Warning",
          reason: "IPVSDeprecation",
          action: "StartKubeProxy",
          note: "ipvs mode is deprecated: off by default from Kubernetes 1.40, removed in 1.43. Consider nftables.",
        });
    },
    warn: (reason, message) => recorder.record({ type: "Warning", reason, action: "SyncRules", note: message }),
  };
}
