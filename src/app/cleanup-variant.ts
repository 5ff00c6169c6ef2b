/** Steps that name `iptables-save` or `iptables-restore`, aimed at one variant of the tools whatever the host's default is. */
import type { Family } from "../model/family.ts";
import type { ExecStep, Step, StepResult } from "../model/step.ts";

export type Variant = "nft" | "legacy";

/** One variant of the tools on this host. */
export interface Tools {
  readonly variant: Variant;
  /** Prefix of the tools: `iptables-nft`, `ip6tables-legacy`; `iptables` where only the default has a name. */
  readonly prefix: (family: Family) => string;
  /**
   * Tables that may be asked for; undefined: all. Merely asking iptables-legacy for a table creates it, with its hooks
   * in the packet path (measured, 1.8.9), so only those that exist may be.
   */
  readonly tables: (family: Family) => ReadonlySet<string> | undefined;
}

export const absent: StepResult = { exitCode: -1, stdout: "", stderr: "" };

/** Whether a step runs a tool of iptables. */
export function isIptables(step: Step): step is ExecStep {
  return step.kind === "exec" && /^ip6?tables(-|$)/.test(step.tool);
}

/** The same step for the given tools; undefined: it asks for a table that does not exist. */
export function aimAt(step: ExecStep, family: Family, tools: Tools): ExecStep | undefined {
  const table = step.args[step.args.indexOf("-t") + 1];
  const known = tools.tables(family);
  if (step.args.includes("-t") && known !== undefined && !known.has(table ?? "")) return undefined;
  return { ...step, tool: step.tool.replace(family.iptables, tools.prefix(family)) };
}

/** The variants that the host has, its default first. `present`: which tools exist; `legacyTables`: from /proc/net. */
export function hostTools(
  defaultVariant: Variant | undefined,
  present: (tool: string) => boolean,
  legacyTables: (family: Family) => ReadonlySet<string>,
): readonly Tools[] {
  const order: readonly Variant[] = defaultVariant === "legacy" ? ["legacy", "nft"] : ["nft", "legacy"];
  return order.flatMap((variant) => {
    const tables = (family: Family) => (variant === "legacy" ? legacyTables(family) : undefined);
    if (present(`iptables-${variant}-save`))
      return [{ variant, tables, prefix: ({ iptables }: Family) => `${iptables}-${variant}` }];
    if (variant === defaultVariant) return [{ variant, tables, prefix: ({ iptables }: Family) => iptables }];
    return [];
  });
}
