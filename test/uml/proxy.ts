/** The ipvs backend driven by hand in the namespace that this process is in: snapshot → plan → state → steps → the real tools. */

import { Reconciler } from "../../src/app/reconciler.ts";
import { ipvs } from "../../src/backends/ipvs/index.ts";
import type { IpvsObserved, IpvsState } from "../../src/backends/ipvs/state.ts";
import { runSteps } from "../../src/host/run.ts";
import type { Context } from "../../src/model/context.ts";
import type { Snapshot } from "../../src/model/snapshot.ts";
import type { Step } from "../../src/model/step.ts";

/** One family's reconciler over real tools; remembers every step that it ran. */
export class IpvsProxy {
  readonly steps: Step[] = [];
  readonly reconciler: Reconciler<IpvsState, IpvsObserved>;
  readonly context: Context;

  constructor(context: Context) {
    this.context = context;
    const run = (steps: readonly Step[]) => {
      this.steps.push(...steps);
      return runSteps(steps);
    };
    this.reconciler = new Reconciler({ backend: ipvs, context, run, now: Date.now });
  }

  async setup(): Promise<void> {
    await runSteps(ipvs.setup(this.context));
  }

  /** One sync; throws when it failed. Returns when it wants to be called again. */
  async sync(snapshot: Snapshot): Promise<number | undefined> {
    const { report, againMs } = await this.reconciler.sync(snapshot);
    if (!report.ok) throw new Error(`${this.context.family.name}: ${report.error}`);
    return againMs;
  }

  /** Syncs until nothing drains, at most five times. */
  async settle(snapshot: Snapshot): Promise<void> {
    for (let i = 0; i < 5; i++) {
      const again = await this.sync(snapshot);
      if (again === undefined) return;
      await Bun.sleep(again);
    }
  }
}
