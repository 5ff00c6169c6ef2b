/** Remembers what was said, so that each remark is logged once while it lasts, and again when it comes back. */

export class OnceList {
  readonly #said = new Map<string, ReadonlySet<string>>();

  /** The lines of a topic that were not there last time. */
  fresh(topic: string, lines: readonly string[]): readonly string[] {
    const before = this.#said.get(topic);
    this.#said.set(topic, new Set(lines));
    return lines.filter((line) => before?.has(line) !== true);
  }
}
