/** Where objects from the API server or from manifests go. */

export interface Sink<T> {
  /** The complete set: what is not in it is gone. */
  replace(entries: ReadonlyMap<string, T>): void;
  set(key: string, value: T): void;
  /** Removing what is absent is no error. */
  delete(key: string): void;
}
