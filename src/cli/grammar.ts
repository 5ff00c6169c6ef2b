/** The whole command line as data, for completion scripts and the man page: every command with its flags. */
import { allGates } from "../config/feature-gates.ts";
import { type Command, type CommandModule, commands } from "./commands.ts";
import { helpFlag } from "./dispatch.ts";
import type { Flag, FlagTable } from "./flag.ts";
import { flags } from "./flags.ts";

export interface CommandGrammar {
  readonly name: string;
  readonly summary: string;
  readonly module: CommandModule;
  /** With --help. */
  readonly flags: FlagTable;
}

/** What can follow a flag. */
export type FlagValue =
  | { readonly kind: "none" | "any" | "file" }
  | { readonly kind: "choice"; readonly choices: readonly string[] };

export async function grammar(known: readonly Command[] = commands): Promise<readonly CommandGrammar[]> {
  return Promise.all(
    known.map(async ({ name, summary, load }) => {
      const { command } = await load();
      return { name, summary, module: command, flags: [...command.flags, ...helpFlag] };
    }),
  );
}

/** The flags of the proxy itself. */
export const ownFlags: FlagTable = flags;

export function valueKind(flag: Flag): FlagValue {
  if (flag.type === "bool" || flag.type === "version") return { kind: "none" };
  const choices = choicesOf(flag);
  if (choices !== undefined) return { kind: "choice", choices };
  return { kind: /^(file|files|paths)$/.test(flag.placeholder ?? "") ? "file" : "any" };
}

// --- internal ---

function choicesOf(flag: Flag): readonly string[] | undefined {
  if (flag.type === "ProxyMode") return ["iptables", "ipvs", "nftables"];
  if (flag.type === "LocalMode") return ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"];
  const byName: Readonly<Record<string, readonly string[]>> = {
    output: ["text", "json"],
    family: ["4", "6"],
    "iptables-variant": ["nft", "legacy"],
    "logging-format": ["text", "json"],
    "ipvs-scheduler": ["rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh"],
    "nodeport-addresses": ["primary", "localhost", "all"],
    "feature-gates": gateChoices(),
  };
  return byName[flag.name];
}

function gateChoices(): readonly string[] {
  const gates = allGates({ featureGates: {} });
  return [...gates].flatMap(({ name }) => [`${name}=true`, `${name}=false`]);
}
