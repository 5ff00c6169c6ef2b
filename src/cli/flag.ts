/** What a flag is: one row of a flag table, for the proxy itself and for every subcommand. */

export type FlagType =
  | "bool"
  | "string"
  | "strings"
  | "int32"
  | "float32"
  | "duration"
  | "ip"
  | "ipport"
  | "quantity"
  | "mapStringBool"
  | "Level"
  | "vmodule"
  | "version"
  | "ProxyMode"
  | "LocalMode";

export interface Flag {
  /** Without dashes. */
  readonly name: string;
  readonly short?: string;
  readonly type: FlagType;
  /** As text, in the form /flagz prints; empty: none. */
  readonly default: string;
  /** One sentence or two, without the default. */
  readonly help: string;
  /** Group in --help. */
  readonly topic: string;
  /** Field of the configuration that it sets. */
  readonly field?: string;
  /** In nftables mode it sets the same field of the nftables section. */
  readonly alsoNftables?: boolean;
  /** Counts although a configuration file is given. */
  readonly overFile?: boolean;
  /** What to use instead. */
  readonly deprecated?: string;
  /** Word for the value in --help; the type when absent. */
  readonly placeholder?: string;
}

export type FlagTable = readonly Flag[];

/** A row; the rest of the columns in `more`. */
export function flag(
  topic: string,
  name: string,
  type: FlagType,
  help: string,
  more: Partial<Omit<Flag, "name" | "type" | "topic" | "help">> = {},
): Flag {
  return { default: type === "bool" ? "false" : "", ...more, name, type, topic, help };
}
