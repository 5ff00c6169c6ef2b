/** Which changes from the API are not in the kernel of every family yet. Pure data structure, bounded. */
import type { FamilyName } from "../model/family.ts";
import type { ChangeCounts } from "../model/report.ts";

interface Arrival extends ChangeCounts {
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** A family that fails for hours must not make this grow. */
const maxArrivals = 256;

export class PendingChanges {
  readonly #done: Map<FamilyName, number>;
  #arrivals: Arrival[] = [];

  constructor(families: readonly FamilyName[]) {
    this.#done = new Map(families.map((family) => [family, Number.NEGATIVE_INFINITY]));
  }

  arrived(counts: ChangeCounts, at: number): void {
    const last = this.#arrivals.at(-1);
    if (last && (last.at === at || this.#arrivals.length >= maxArrivals)) this.#arrivals.pop();
    const held = last && this.#arrivals.at(-1) !== last ? last : { services: 0, endpoints: 0 };
    this.#arrivals.push({
      at,
      services: held.services + counts.services,
      endpoints: held.endpoints + counts.endpoints,
    });
  }

  /** A sync of this family that started then succeeded. */
  done(family: FamilyName, startedAt: number): void {
    this.#done.set(family, startedAt);
    const everywhere = Math.min(...this.#done.values());
    this.#arrivals = this.#arrivals.filter((arrival) => arrival.at > everywhere);
  }

  count(): ChangeCounts {
    let [services, endpoints] = [0, 0];
    for (const arrival of this.#arrivals) {
      services += arrival.services;
      endpoints += arrival.endpoints;
    }
    return { services, endpoints };
  }
}
