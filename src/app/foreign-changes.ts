/** Puts the watch for changes by others together: a monitor for each family, their verdicts, repair or a look. */
import type { Drift } from "../backends/backend.ts";
import type { ProxyMode } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import type { Log } from "../model/log.ts";
import type { ChildProcesses } from "./child-processes.ts";
import { DriftWatch } from "./drift-watch.ts";
import { Monitor } from "./monitor.ts";
import { Suspicions } from "./suspicions.ts";

export interface ForeignChangesOptions {
  readonly mode: ProxyMode;
  readonly log: Log;
  readonly children: ChildProcesses;
  readonly repair: (family: FamilyName, drift: readonly Drift[], by: string) => void;
  readonly look: (by: string) => Promise<boolean>;
}

export interface ForeignWatch {
  /** Both monitors are there: nothing that they can see is missed. */
  running(): boolean;
  /** No events are wanted until `resume`; then there is a look instead. */
  pause(): void;
  resume(): void;
  close(): void;
}

export function watchForeignChanges({ mode, log, children, repair, look }: ForeignChangesOptions): ForeignWatch {
  const suspicions = new Suspicions({
    now: () => performance.now(),
    repair,
    look,
    lookAtUnseen: mode === "nftables",
  });
  const monitors = (["-4", "-6"] as const).map((family) => {
    const watch = new DriftWatch(mode);
    return new Monitor({
      log,
      family,
      onEvent: (event) => {
        const change = watch.feed(event, (pid, name) => children.includes(pid, name));
        if (change !== undefined) suspicions.changed(change);
      },
      onEnd: (lastLine) => {
        const drift = watch.ended(lastLine);
        // Our own rules may be what it did not understand.
        if (!children.writing) suspicions.certain(drift);
      },
      onRestart: () => suspicions.monitorStarted(),
    });
  });
  return {
    running: () => monitors.every((monitor) => monitor.running),
    pause: () => {
      for (const monitor of monitors) monitor.pause();
    },
    resume: () => {
      for (const monitor of monitors) monitor.resume();
    },
    close: () => {
      for (const monitor of monitors) monitor.close();
      suspicions.close();
    },
  };
}
