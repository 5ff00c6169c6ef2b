/** The output of iptables-save as sections: our chains, and what the built-in chains hold of ours. */
import { jumpOf, linesOf, type SavedTable } from "./iptables-save.ts";
import { type Section, sorted } from "./section.ts";

export interface IptablesView {
  readonly table: string;
  readonly owns: (chain: string) => boolean;
  /** Chains with one rule a Service, in any order. */
  readonly unordered: (chain: string) => boolean;
  /** Lines of chains that others write to as well, by chain: all else in those is passed over. */
  readonly shared: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Built-in chains without a rule of ours are left out; chains of others too. */
export function iptablesSections({ chains }: SavedTable, view: IptablesView): readonly Section[] {
  const sections: Section[] = [];
  for (const [chain, text] of [...chains].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const name = `${view.table}/${chain}`;
    const all = linesOf(text).map((line) => line.trimEnd());
    const shared = view.shared.get(chain);
    if (shared !== undefined) sections.push({ name, lines: all.filter((line) => shared.has(line)), ordered: true });
    else if (view.owns(chain))
      sections.push(...(view.unordered(chain) ? dispatch(name, all) : [{ name, lines: all, ordered: true }]));
    else if (!chain.startsWith("KUBE-")) {
      const jumps = all.filter((line) => isOurJump(line, view));
      if (jumps.length > 0) sections.push({ name, lines: jumps, ordered: true });
    }
  }
  return sections;
}

// --- internal ---

/** The rule for node ports ends its chain and must stay there; the rest has no order. */
function dispatch(name: string, lines: readonly string[]): readonly Section[] {
  const last = lines.at(-1);
  if (last === undefined || !lines.some((line) => line.includes("must be the last rule"))) return [sorted(name, lines)];
  return [sorted(name, lines), { name: `${name} (last rule)`, lines: [last], ordered: true }];
}

/** A jump to a shared chain may be somebody else's, in which case it is as good as ours. */
function isOurJump(line: string, view: IptablesView): boolean {
  const target = jumpOf(line);
  return target !== undefined && view.owns(target) && !view.shared.has(target);
}
