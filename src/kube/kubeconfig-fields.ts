/** Reading fields of an untrusted kubeconfig with their paths, so that every complaint names file and field. */
import { KubeconfigError } from "./cluster-access.ts";

/** One mapping of the file. Absent and null fields read as empty; wrong types throw KubeconfigError. */
export class Fields {
  readonly #file: string;
  readonly #path: string;
  readonly #value: Readonly<Record<string, unknown>>;

  constructor(file: string, path: string, value: unknown) {
    this.#file = file;
    this.#path = path;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw new KubeconfigError(file, path, `must be a mapping, is ${typeName(value)}`);
    }
    this.#value = value as Record<string, unknown>;
  }

  fail(name: string, message: string): never {
    throw new KubeconfigError(this.#file, this.#at(name), message);
  }

  get(name: string): unknown {
    return Object.hasOwn(this.#value, name) ? (this.#value[name] ?? undefined) : undefined;
  }

  text(name: string): string {
    const value = this.get(name);
    if (value === undefined) return "";
    if (typeof value !== "string") return this.fail(name, `must be text, is ${typeName(value)} (quote it)`);
    return value;
  }

  flag(name: string): boolean {
    const value = this.get(name);
    if (value === undefined) return false;
    if (typeof value !== "boolean") return this.fail(name, `must be true or false, is ${typeName(value)}`);
    return value;
  }

  list(name: string): readonly unknown[] {
    const value = this.get(name);
    if (value === undefined) return [];
    if (!Array.isArray(value)) return this.fail(name, `must be a list, is ${typeName(value)}`);
    return value;
  }

  texts(name: string): readonly string[] {
    return this.list(name).map((item, i) => {
      if (typeof item !== "string") return this.fail(`${name}[${i}]`, `must be text, is ${typeName(item)} (quote it)`);
      return item;
    });
  }

  mapping(name: string): Fields | undefined {
    const value = this.get(name);
    return value === undefined ? undefined : new Fields(this.#file, this.#at(name), value);
  }

  mappings(name: string): readonly Fields[] {
    return this.list(name).map((item, i) => new Fields(this.#file, this.#at(`${name}[${i}]`), item));
  }

  /** Names of the fields present. */
  names(): readonly string[] {
    return Object.keys(this.#value);
  }

  #at(name: string): string {
    return this.#path === "" ? name : `${this.#path}.${name}`;
  }
}

function typeName(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  return Array.isArray(value)
    ? "a list"
    : typeof value === "object"
      ? "a mapping"
      : `the ${typeof value} ${String(value)}`;
}
