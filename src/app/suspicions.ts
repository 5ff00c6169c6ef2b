/** Gathers for a moment what the monitors tell of one foreign change, then has it repaired or looked at, not too often. */
import type { FamilyName } from "../model/family.ts";
import type { ForeignChange } from "./drift-watch.ts";

export interface SuspicionOptions {
  /** Milliseconds, monotonic. */
  readonly now: () => number;
  /** Certain drift. */
  readonly repair: (family: FamilyName, drift: ForeignChange["drift"], by: string) => void;
  /** Something of ours may have been changed: true when it was, and is being repaired. */
  readonly look: (by: string) => Promise<boolean>;
  /** Whether changes that no monitor showed may be ours: elements of sets and maps. */
  readonly lookAtUnseen: boolean;
}

/** The monitors tell of one transaction within so many milliseconds. */
const gatherMs = 50;
const shortestPause = 1_000;
/** A look that takes 300 ms is taken every 3 seconds at most. */
const restFactor = 10;
const mostNames = 3;

export class Suspicions {
  readonly #options: SuspicionOptions;
  #drift: ForeignChange["drift"][number][] = [];
  readonly #generations = new Map<number, ForeignChange["verdict"]>();
  readonly #names = new Set<string>();
  #vague: ForeignChange["drift"][number][] = [];
  #mustLook = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #nextLook = Number.NEGATIVE_INFINITY;
  #lookTimer: ReturnType<typeof setTimeout> | undefined;
  #lookNames = new Set<string>();

  constructor(options: SuspicionOptions) {
    this.#options = options;
  }

  changed({ drift, verdict, generation, by }: ForeignChange): void {
    this.#drift.push(...drift);
    const old = this.#generations.get(generation);
    if (old === undefined || old === "unseen" || verdict === "ours") this.#generations.set(generation, verdict);
    this.#names.add(by);
    this.#gather();
  }

  /** What a monitor showed before it ended: a look may say more, and if it does not, this is repaired. */
  certain(drift: ForeignChange["drift"]): void {
    if (drift.length === 0) return;
    this.#vague.push(...drift);
    this.#mustLook = true;
    this.#gather();
  }

  /** A monitor is there again: nobody saw what was changed meanwhile. */
  monitorStarted(): void {
    this.#mustLook = true;
    this.#gather();
  }

  close(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#lookTimer);
  }

  // --- internal ---

  #gather(): void {
    this.#timer ??= setTimeout(() => this.#decide(), gatherMs);
  }

  #decide(): void {
    this.#timer = undefined;
    const unseen = this.#options.lookAtUnseen && [...this.#generations.values()].includes("unseen");
    const by = [...this.#names].slice(-mostNames);
    const drift = this.#drift;
    if (unseen || this.#mustLook) this.#look(by);
    this.#drift = [];
    this.#generations.clear();
    this.#names.clear();
    this.#mustLook = false;
    this.#repair(drift, by.join(", "));
  }

  #repair(drift: ForeignChange["drift"], by: string): void {
    for (const family of ["IPv4", "IPv6"] as const) {
      const own = drift.filter((d) => d.family === family);
      if (own.length > 0) this.#options.repair(family, own, by);
    }
  }

  #look(by: readonly string[]): void {
    for (const name of by) this.#lookNames.add(name);
    const wait = Math.max(0, this.#nextLook - this.#options.now());
    this.#lookTimer ??= setTimeout(() => void this.#lookNow(), wait);
  }

  async #lookNow(): Promise<void> {
    const names = [...this.#lookNames].slice(-mostNames).join(", ");
    const vague = this.#vague;
    this.#lookNames = new Set();
    this.#vague = [];
    const start = this.#options.now();
    const found = await this.#options.look(names).catch(() => false);
    if (!found) this.#repair(vague, names);
    this.#lookTimer = undefined;
    const now = this.#options.now();
    this.#nextLook = now + Math.max(shortestPause, (now - start) * restFactor);
    if (this.#lookNames.size + this.#vague.length > 0) this.#look([]);
  }
}
