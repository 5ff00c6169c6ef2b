/** What is worth telling: log lines, events and metrics for syncs that fail or recover, quarantine, conflicts and drift. */
import type { FamilyName } from "../model/family.ts";
import type { Plan } from "../model/plan.ts";
import type { SyncReport } from "../model/report.ts";
import type { DriftFound } from "./loop.ts";
import { OnceList } from "./once.ts";
import type { ProxyInputs } from "./proxy.ts";
import { patience } from "./repairs.ts";

type NewsInputs = Pick<ProxyInputs, "log" | "status" | "servers" | "events">;

/** Tells each thing once while it lasts. */
export class ProxyNews {
  readonly #in: NewsInputs;
  readonly #conflicts = new OnceList();

  constructor(inputs: NewsInputs) {
    this.#in = inputs;
  }

  /** `before`: the family's last report. */
  synced(report: SyncReport, before: SyncReport | undefined, plan: Plan | undefined): void {
    const { log, events } = this.#in;
    const family = report.family;
    if (!report.ok) {
      log.error("Sync failed, will retry", { ipFamily: family, reason: report.error });
      if (before?.ok !== false) events.warn("SyncFailed", `${family}: ${report.error}`);
    } else if (before?.ok === false) log.info("Sync works again", { ipFamily: family });
    log.debug(2, "Synced", { ipFamily: family, full: report.full, ms: report.finishedAt - report.startedAt });
    for (const q of report.quarantined) {
      if (before?.quarantined.some((old) => old.service === q.service) === true) continue;
      log.error("Service not programmed, all others are; will retry", {
        service: q.service,
        ipFamily: family,
        reason: q.reason,
      });
      events.warn("ServiceNotProgrammed", `${q.service} (${family}): ${q.reason}`);
    }
    for (const line of this.#conflicts.fresh(family, plan?.conflicts ?? [])) {
      log.warn("Two Services claim the same", { ipFamily: family, conflict: line });
      events.warn("AddressConflict", line);
    }
  }

  drifted(family: FamilyName, { drift, by, returns, nextMs }: DriftFound): void {
    const { log, status, servers, events } = this.#in;
    for (const { kind } of drift) servers.recorder.drift(kind, 1);
    const more = drift.length > 3 ? `; and ${drift.length - 3} more` : "";
    const what = `${drift
      .slice(0, 3)
      .map((d) => d.what)
      .join("; ")}${more}`;
    status.repaired({ at: Date.now(), family, what, by }, drift.length);
    const facts = { ipFamily: family, what, by: by === "" ? "unknown" : by };
    if (returns < patience) {
      log.warn("Rules of ours were changed, repairing", facts);
      events.warn("RulesChanged", `${family}: ${what}${by === "" ? "" : ` (by ${by})`}; repaired`);
      return;
    }
    log.error("Another process keeps changing our rules, repairing less often: stop it, or this proxy", {
      ...facts,
      times: returns + 1,
      nextRepairIn: `${nextMs / 1000}s`,
    });
    events.warn("RulesFoughtOver", `${family}: another process keeps changing our rules: ${what}`);
  }
}
