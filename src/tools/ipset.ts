/** Lines of `ipset restore` and `ipset save`: sets and their elements, printed and read back. */

export type SetType = "hash:ip" | "hash:ip,port" | "hash:ip,port,ip" | "hash:ip,port,net" | "bitmap:port";

export interface IpSet {
  /** At most 31 characters. */
  readonly name: string;
  readonly type: SetType;
  /** Undefined for bitmap:port. */
  readonly family: "inet" | "inet6" | undefined;
}

export type SetLine =
  | { readonly kind: "create"; readonly set: IpSet }
  | { readonly kind: "add"; readonly name: string; readonly entry: string }
  | { readonly kind: "del"; readonly name: string; readonly entry: string }
  | { readonly kind: "destroy"; readonly name: string };

/** One line with its newline. Entries hold addresses, protocols and ports only, so nothing needs quoting. */
export function printSetLine(line: SetLine): string {
  switch (line.kind) {
    case "create":
      return `create ${line.set.name} ${printParameters(line.set)}\n`;
    case "destroy":
      return `destroy ${line.name}\n`;
    default:
      return `${line.kind} ${line.name} ${line.entry}\n`;
  }
}

/** A line of `ipset save` or of our own restore input; undefined when it is of a kind that we never write. */
export function parseSetLine(line: string): SetLine | undefined {
  const [kind, name, third, ...rest] = line.trim().split(/\s+/);
  if (name === undefined) return undefined;
  if (kind === "destroy" && third === undefined) return { kind, name };
  if (third === undefined) return undefined;
  if (kind === "add" || kind === "del") return { kind, name, entry: third };
  if (kind !== "create" || !isSetType(third)) return undefined;
  const at = rest.indexOf("family");
  const family = at < 0 ? undefined : rest[at + 1];
  if (family !== undefined && family !== "inet" && family !== "inet6") return undefined;
  return { kind, set: { name, type: third, family } };
}

/** `10.0.0.1,tcp:80`. */
export function ipPort(ip: string, protocol: string, port: number): string {
  return `${ip},${protocol}:${port}`;
}

// --- internal ---

const types: readonly string[] = ["hash:ip", "hash:ip,port", "hash:ip,port,ip", "hash:ip,port,net", "bitmap:port"];

function isSetType(text: string): text is SetType {
  return types.includes(text);
}

function printParameters(set: IpSet): string {
  if (set.type === "bitmap:port") return "bitmap:port range 0-65535";
  return `${set.type} family ${set.family ?? "inet"} maxelem 65536`;
}
