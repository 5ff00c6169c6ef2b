/** /status.json: what the running proxy knows about itself, as data for `kube-proxy status`, the status page and scripts. */
import { judgeHealth } from "../health/state.ts";
import type { FamilyName } from "../model/family.ts";
import { type HttpAnswer, jsonAnswer, methodNotAllowedAnswer, respond } from "../model/http-answer.ts";
import type { Quarantine, StageTimes } from "../model/report.ts";
import type { FamilyStatus, ProxyStatus, Repair } from "./status.ts";

export const statusJsonPath = "/status.json";

/** Moments are milliseconds since the epoch, null: never or nothing. */
export interface FamilyJson {
  readonly family: FamilyName;
  readonly healthy: boolean;
  readonly lastSynced: number | null;
  /** The oldest change that is not in the kernel yet. */
  readonly dueSince: number | null;
  readonly lastSync: {
    readonly startedAt: number;
    readonly finishedAt: number;
    readonly full: boolean;
    readonly ok: boolean;
    readonly error: string | null;
    /** Milliseconds. */
    readonly stages: StageTimes;
    readonly counts: Readonly<Record<string, number>>;
  } | null;
  readonly services: number;
  readonly ports: number;
  /** Over all ports, as the rules have them. */
  readonly endpoints: number;
  readonly quarantined: readonly Quarantine[];
  readonly conflicts: readonly string[];
}

export interface StatusJson {
  readonly version: string;
  readonly commit: string;
  readonly runtime: string;
  readonly pid: number;
  readonly startedAt: number;
  readonly now: number;
  readonly mode: string;
  readonly nodeName: string;
  /** Null: not looked for yet. */
  readonly nodeKnown: boolean | null;
  readonly nodeEligible: boolean;
  /** URL of the API server, or the files of manifests. */
  readonly source: string;
  readonly lastContact: number | null;
  readonly healthy: boolean;
  readonly warnings: readonly string[];
  /** Changes that arrived and are not in the kernel yet. */
  readonly pending: { readonly services: number; readonly endpoints: number };
  readonly driftRepairs: number;
  /** The last few, oldest first. */
  readonly repairs: readonly Repair[];
  readonly families: readonly FamilyJson[];
}

export interface StatusJsonInputs {
  readonly status: ProxyStatus;
  readonly mode: string;
  readonly version: string;
  readonly commit: string;
  readonly runtime: string;
  readonly pid: number;
  readonly source: string;
  readonly lastContact: number | undefined;
  readonly now: number;
}

export function statusJson(inputs: StatusJsonInputs): StatusJson {
  const { status, lastContact, ...rest } = inputs;
  const health = judgeHealth(status.healthFacts(), inputs.now);
  return {
    ...rest,
    startedAt: status.startedAt,
    nodeName: status.nodeName,
    nodeKnown: status.nodeKnown ?? null,
    nodeEligible: health.nodeEligible,
    lastContact: lastContact ?? null,
    healthy: health.healthy,
    warnings: health.warnings,
    pending: status.pending,
    driftRepairs: status.driftRepairs,
    repairs: status.repairs,
    families: [...status.families].map(([family, one]) =>
      familyJson(family, one, health.families.get(family)?.healthy === true),
    ),
  };
}

/** A route for metricsHandler; undefined for every other path. */
export function statusJsonRoute(path: string, request: Request, facts: () => StatusJson): Response | undefined {
  return path === statusJsonPath ? respond(answer(request, facts)) : undefined;
}

// --- internal ---

function answer(request: Request, facts: () => StatusJson): HttpAnswer {
  if (request.method !== "GET" && request.method !== "HEAD") return methodNotAllowedAnswer("GET, HEAD");
  return jsonAnswer(200, `${JSON.stringify(facts())}\n`, { "Cache-Control": "no-store" });
}

function familyJson(family: FamilyName, { health, report, plan }: FamilyStatus, healthy: boolean): FamilyJson {
  const services = [...(plan?.services.values() ?? [])];
  return {
    family,
    healthy,
    lastSynced: health.lastSynced ?? null,
    dueSince: health.dueSince ?? null,
    lastSync:
      report === undefined
        ? null
        : {
            startedAt: report.startedAt,
            finishedAt: report.finishedAt,
            full: report.full,
            ok: report.ok,
            error: report.error ?? null,
            stages: report.stages,
            counts: report.counts,
          },
    services: services.length,
    ports: services.reduce((sum, one) => sum + one.ports.length, 0),
    endpoints: plan?.endpointCount ?? 0,
    quarantined: report?.quarantined ?? [],
    conflicts: plan?.conflicts ?? [],
  };
}
