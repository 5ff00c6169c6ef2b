/** Tool output in comparable pieces: one chain, set or list of servers with its lines, free of what changes by itself. */

export interface Section {
  /** Unique in its dump: `nat/KUBE-SERVICES`, `map service-ips`. */
  readonly name: string;
  readonly lines: readonly string[];
  /** False: the order means nothing, and the lines are sorted. */
  readonly ordered: boolean;
}

/** A section of lines whose order means nothing. */
export function sorted(name: string, lines: Iterable<string>): Section {
  return { name, lines: [...lines].sort(), ordered: false };
}
