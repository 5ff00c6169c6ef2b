/** The status page's explanations, from the plans that the running process holds. */
import { explainPacket } from "../explain/explain.ts";
import { objectText } from "../explain/object-text.ts";
import { hereOf, readDestination, readSource } from "../explain/packet.ts";
import { explainService, type PlannedFamily, type ServicePage } from "../explain/service-page.ts";
import type { Verdict } from "../explain/verdict.ts";
import { familyOf } from "../model/ip.ts";
import type { ProxyStatus } from "./status.ts";

export type Explained =
  | {
      readonly verdict: Omit<Verdict, "steps"> & {
        readonly steps: readonly {
          readonly topic: string;
          readonly text: string;
          readonly objects: readonly string[];
        }[];
      };
    }
  | { readonly error: string };

const namedObjects = 40;

/** `from`: an address, pod, node or external; `to`: IP:port[/protocol]. */
export function explainQuery(status: ProxyStatus, from: string, to: string): Explained {
  const aim = readDestination(to);
  if (!aim.ok) return { error: aim.problem };
  const family = familyOf(aim.value.ip);
  const planned = plannedFamilies(status).find(({ context }) => context.family.name === family);
  if (planned === undefined) return { error: `${family} is not programmed on this node yet, or not at all` };
  const { context, plan } = planned;
  const here = hereOf(context);
  const source = readSource(from === "" ? "pod" : from, aim.value, plan, context, here);
  if (!source.ok) return { error: source.problem };
  const verdict = explainPacket(plan, context, { from: source.value, to: aim.value }, here);
  const steps = verdict.steps.map(({ topic, text, objects }) => ({
    topic,
    text,
    objects: objects.slice(0, namedObjects).map((object) => objectText(object, context.family)),
  }));
  return { verdict: { ...verdict, steps } };
}

export function serviceQuery(status: ProxyStatus, key: string): ServicePage | { readonly error: string } {
  const page = explainService(key, plannedFamilies(status));
  return page ?? { error: "this node has no such Service" };
}

// --- internal ---

function plannedFamilies(status: ProxyStatus): readonly PlannedFamily[] {
  return [...status.families.values()].flatMap(({ plan, context }) =>
    plan === undefined || context === undefined ? [] : [{ plan, context }],
  );
}
