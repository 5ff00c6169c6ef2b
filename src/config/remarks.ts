/** What is legal in a configuration but surely not meant, or about to go: said once at start. */
import { parseIPPort } from "./address.ts";
import type { Config } from "./config.ts";
import type { Warning } from "./config-error.ts";

export function remarks(config: Config): readonly Warning[] {
  const { healthzBindAddress, metricsBindAddress, detectLocalMode, detectLocal, clusterCIDR } = config;
  const found: string[] = [];
  const health = parseIPPort(healthzBindAddress);
  const metrics = parseIPPort(metricsBindAddress);
  if (health !== undefined && health.port !== 0 && health.port === metrics?.port) {
    found.push(`healthzBindAddress ${healthzBindAddress} and metricsBindAddress ${metricsBindAddress} share a port`);
  }
  if (detectLocalMode === "BridgeInterface" && detectLocal.bridgeInterface.length > 15) {
    found.push(
      `detectLocal.bridgeInterface ${detectLocal.bridgeInterface} is longer than an interface name can be (15)`,
    );
  }
  if (detectLocalMode === "ClusterCIDR" && clusterCIDR === "") {
    found.push("clusterCIDR is not set: traffic of pods cannot be told from other traffic and is never short-cut");
  }
  return found.map((message) => ({ fields: [], message }));
}
