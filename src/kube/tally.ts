/** Counts changes between syncs for one consumer, and keeps the trigger times that its next successful sync answers to. */
import type { FamilyName } from "../model/family.ts";

export interface Changes {
  readonly services: number;
  readonly endpoints: number;
  /** Trigger times of endpoint changes, milliseconds since the epoch. */
  readonly triggers: readonly number[];
}

export class Tally {
  /** Undefined: endpoints of both families are counted. */
  readonly family: FamilyName | undefined;
  #services = 0;
  #endpoints = 0;
  #triggers: number[] = [];

  constructor(family?: FamilyName) {
    this.family = family;
  }

  service(): void {
    this.#services++;
  }

  /** `trigger` 0: unknown. */
  endpoint(family: FamilyName, trigger: number): void {
    if (this.family !== undefined && family !== this.family) return;
    this.#endpoints++;
    // a sync that fails for hours must not collect for ever
    if (trigger > 0 && this.#triggers.length < 100_000) this.#triggers.push(trigger);
  }

  /** What is pending, without taking it. */
  get pending(): Changes {
    return { services: this.#services, endpoints: this.#endpoints, triggers: this.#triggers };
  }

  /** What is pending now; afterwards nothing is. */
  take(): Changes {
    const taken = this.pending;
    this.#services = 0;
    this.#endpoints = 0;
    this.#triggers = [];
    return taken;
  }

  /** After a failed sync: its changes are still to be made. */
  putBack(changes: Changes): void {
    this.#services += changes.services;
    this.#endpoints += changes.endpoints;
    this.#triggers = [...changes.triggers, ...this.#triggers];
  }
}
