/** Runs the stories: scenes with changes over time, which a table of single packets cannot tell. */
import type { Cluster } from "../lab/cluster.ts";

import { Stage, type Story } from "./stage.ts";
import { change } from "./stories/change.ts";
import { choice } from "./stories/choice.ts";
import { loopback } from "./stories/loopback.ts";
import { addTo, type RunRequest, type Tallies } from "./tally.ts";

export const stories: readonly Story[] = [...choice, ...change, ...loopback];

/** Runs all stories of the mode, both families at once; `first` is the first free Service id. */
export async function runStories(
  request: RunRequest,
  cluster: Cluster,
  first: number,
  patience: number,
  tallies: Tallies,
  startProxy: (otherLayout: boolean) => Promise<void>,
): Promise<void> {
  let next = first;
  for (const story of stories) {
    const families = request.families.filter((family) => story.families?.includes(family) ?? true);
    if (!story.name.includes(request.only) || story.modes?.includes(request.mode) === false || families.length === 0) {
      continue;
    }
    const started = performance.now();
    const stage = new Stage(story.name, request.mode, families, cluster, patience, startProxy, () => next++);
    await story.run(stage);
    if (stage.faults.size > 0) {
      request.log(`the proxy's last lines:\n${cluster.proxyOutput().trimEnd().split("\n").slice(-40).join("\n")}`);
    }
    await stage.removeAll();
    request.log(`${request.mode}: story "${story.name}": ${((performance.now() - started) / 1000).toFixed(1)} s`);
    for (const family of families) {
      const connections = Math.round(stage.connections / families.length);
      addTo(tallies, family, { stories: 1, connections, faults: stage.faults.get(family) ?? [] });
    }
  }
}
