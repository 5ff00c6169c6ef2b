/** Objects of one kind by key; tells its owner of real changes only, so that heartbeats and no-op updates cost nothing. */
import type { Sink } from "./sink.ts";

/** `before` undefined: new. `after` undefined: gone. */
export type Changed<T> = (key: string, before: T | undefined, after: T | undefined) => void;

export class Table<T> implements Sink<T> {
  readonly #rows = new Map<string, T>();
  readonly #changed: Changed<T>;
  readonly #same: (a: T, b: T) => boolean;

  constructor(changed: Changed<T>, same: (a: T, b: T) => boolean = Bun.deepEquals) {
    this.#changed = changed;
    this.#same = same;
  }

  get rows(): ReadonlyMap<string, T> {
    return this.#rows;
  }

  replace(entries: ReadonlyMap<string, T>): void {
    for (const key of [...this.#rows.keys()]) if (!entries.has(key)) this.delete(key);
    for (const [key, value] of entries) this.set(key, value);
  }

  set(key: string, value: T): void {
    const before = this.#rows.get(key);
    if (before !== undefined && this.#same(before, value)) return;
    this.#rows.set(key, value);
    this.#changed(key, before, value);
  }

  delete(key: string): void {
    const before = this.#rows.get(key);
    if (before === undefined) return;
    this.#rows.delete(key);
    this.#changed(key, before, undefined);
  }
}
