/** Logs the remarks about odd API objects: each once, until the object says something else or is gone. */
import type { Log } from "../model/log.ts";
import type { Note } from "../model/note.ts";

export class NoteLog {
  readonly #log: Log;
  /** Last remarks by object key; only objects with remarks are here. */
  readonly #told = new Map<string, string>();

  constructor(log: Log) {
    this.#log = log;
  }

  report(key: string, notes: readonly Note[]): void {
    if (notes.length === 0) {
      this.#told.delete(key);
      return;
    }
    const text = notes.map((note) => `${note.field}\n${note.message}`).join("\n");
    if (this.#told.get(key) === text) return;
    this.#told.set(key, text);
    for (const note of notes.slice(0, 5)) {
      this.#log.warn(`Odd ${note.kind}`, { object: note.object, field: note.field, problem: note.message });
    }
    if (notes.length > 5)
      this.#log.warn(`Odd ${notes[0]?.kind}`, { object: notes[0]?.object, moreProblems: notes.length - 5 });
  }

  forget(key: string): void {
    this.#told.delete(key);
  }

  /** Forgets all objects that are not in the list any longer. */
  retain(keys: { has(key: string): boolean }): void {
    for (const key of this.#told.keys()) if (!keys.has(key)) this.#told.delete(key);
  }
}
