/** The fixture's etcd: objects with one resourceVersion counter and a history that watches replay. */
import { type Resource, resourceOf } from "./kinds.ts";

export interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

export interface Stored {
  readonly key: string;
  readonly version: number;
  readonly object: ApiObject;
  /** The object's JSON, made once. */
  readonly text: string;
}

/** One write: before and after; `after` undefined is a delete. */
export interface Write {
  readonly version: number;
  readonly resource: Resource;
  readonly before: Stored | undefined;
  readonly after: Stored | undefined;
}

export function keyOf(namespace: string | undefined, name: string): string {
  return `${namespace ?? ""}/${name}`;
}

export class ObjectStore {
  version = 1000;
  /** Watches from a version below this one get 410. */
  oldest = 1000;
  readonly #objects = new Map<Resource, Map<string, Stored>>();
  #history: Write[] = [];
  readonly #listeners = new Set<(write: Write) => void>();

  /** Creates or replaces; fills uid, creationTimestamp and resourceVersion. Malformed content is kept as it is. */
  apply(object: ApiObject): Stored {
    const resource = resourceOf(String(object.kind), object.apiVersion);
    const metadata = object.metadata ?? {};
    const namespace = resource.namespaced ? String(metadata["namespace"] ?? "default") : undefined;
    const key = keyOf(namespace, String(metadata["name"]));
    const before = this.#of(resource).get(key);
    this.version++;
    const filled: ApiObject = {
      ...object,
      apiVersion: resource.apiVersion,
      metadata: {
        uid: before?.object.metadata?.["uid"] ?? crypto.randomUUID(),
        creationTimestamp: before?.object.metadata?.["creationTimestamp"] ?? stamp(),
        ...metadata,
        ...(namespace === undefined ? {} : { namespace }),
        resourceVersion: String(this.version),
      },
    };
    const after: Stored = { key, version: this.version, object: filled, text: JSON.stringify(filled) };
    this.#of(resource).set(key, after);
    this.#record({ version: this.version, resource, before, after });
    return after;
  }

  /** False when there was nothing to remove. */
  remove(resource: Resource, key: string): boolean {
    const before = this.#of(resource).get(key);
    if (before === undefined) return false;
    this.#of(resource).delete(key);
    this.version++;
    this.#record({ version: this.version, resource, before, after: undefined });
    return true;
  }

  get(resource: Resource, key: string): Stored | undefined {
    return this.#of(resource).get(key);
  }

  /** Sorted by key. */
  list(resource: Resource): readonly Stored[] {
    return [...this.#of(resource).values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  since(resource: Resource, version: number): readonly Write[] {
    return this.#history.filter((write) => write.resource === resource && write.version > version);
  }

  /** Forgets the history: every watch that resumes from before now gets 410. */
  compact(): void {
    this.#history = [];
    this.oldest = this.version + 1;
    this.version++;
  }

  subscribe(listener: (write: Write) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #of(resource: Resource): Map<string, Stored> {
    let found = this.#objects.get(resource);
    if (found === undefined) {
      found = new Map();
      this.#objects.set(resource, found);
    }
    return found;
  }

  #record(write: Write): void {
    this.#history.push(write);
    if (this.#history.length > 50_000) {
      this.#history = this.#history.slice(25_000);
      this.oldest = this.#history[0]?.version ?? this.version;
    }
    for (const listener of this.#listeners) listener(write);
  }
}

function stamp(): string {
  return `${new Date().toISOString().slice(0, 19)}Z`;
}
