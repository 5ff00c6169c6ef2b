/** What a command about rules works on: configuration, objects and one Context a family, from its flags. */
import { type ContextInputs, makeContexts, nodeIdentity, ruleGates } from "../app/contexts.ts";
import type { Config } from "../config/config.ts";
import { ConfigError, type Fault, fault } from "../config/config-error.ts";
import type { Context, HostFacts } from "../model/context.ts";
import type { FamilyName } from "../model/family.ts";
import { parseIP } from "../model/ip.ts";
import type { NodeInfo } from "../model/node.ts";
import type { Snapshot } from "../model/snapshot.ts";
import { commandConfig } from "./command-config.ts";
import type { Output } from "./commands.ts";
import type { FlagTable } from "./flag.ts";
import { type Objects, readObjects } from "./objects.ts";
import { boolFlag, listFlag, type ParsedFlags, textFlag } from "./parse.ts";
import { commandLog, Trouble } from "./trouble.ts";

export interface Situation {
  readonly config: Config;
  readonly objects: Objects;
  readonly snapshot: Snapshot;
  /** Primary family first; only those asked for. */
  readonly contexts: readonly Context[];
  /** One line each: what was taken for granted. */
  readonly assumptions: readonly string[];
  /** One line each: what may not be as the user expects. */
  readonly warnings: readonly string[];
}

/** What is known or assumed of the machine. */
export interface Machine {
  readonly facts: HostFacts;
  /** Undefined: only the node's own addresses. */
  readonly localAddresses: readonly string[] | undefined;
  readonly supported: readonly FamilyName[];
  readonly assumptions: readonly string[];
}

export interface SituationOptions {
  readonly name: string;
  readonly table: FlagTable;
  readonly parsed: ParsedFlags;
  readonly output: Output;
  readonly machine: (config: Config) => Machine | Promise<Machine>;
  /** Default true: see ObjectsWanted. */
  readonly guessNode?: boolean;
}

/** Throws ConfigError and everything that `troubleLine` knows. */
export async function readSituation(options: SituationOptions): Promise<Situation> {
  const { name, table, parsed, output, machine, guessNode = true } = options;
  const asked = familyFlag(parsed);
  const nodeIPs = nodeIPFlag(parsed);
  const { config, warnings } = commandConfig(table, parsed);
  const log = commandLog(name, output);
  for (const warning of warnings) log.warn(warning);
  const objects = await readObjects({
    config,
    manifests: listFlag(parsed, "manifests"),
    master: textFlag(parsed, "master"),
    log,
    guessNode,
  });
  const node = assumedNode(objects, nodeIPs);
  const { facts, localAddresses, supported, assumptions } = await machine(config);
  const identity = nodeIdentity(node, config.bindAddress);
  const inputs: ContextInputs = {
    config,
    nodeName: objects.nodeName,
    node,
    identity,
    // Warnings about a family that nobody asked for are noise.
    supported: supported.filter((family) => asked === undefined || family === asked || family === identity.primary),
    facts,
    localAddresses: localAddresses ?? identity.real,
    gates: ruleGates(config),
  };
  const made = makeContexts(inputs);
  if (made.faults.length > 0) throw new Trouble(made.faults.join("; "));
  const contexts = made.list.filter(({ family }) => asked === undefined || family.name === asked);
  if (contexts.length === 0)
    throw new Trouble(`this host cannot do ${asked}; leave --family out to see what it can do`);
  return {
    config,
    objects,
    snapshot: objects.snapshot,
    contexts,
    assumptions: [...nodeAssumptions(objects, node, identity.real), ...assumptions],
    warnings: made.warnings,
  };
}

/** The machine that --iptables-variant, --kernel and --nfacct describe; nothing is asked of this one. */
export function assumedMachine(parsed: ParsedFlags, config: Config): Machine {
  const variant = textFlag(parsed, "iptables-variant", "nft");
  const kernel = textFlag(parsed, "kernel", "6.1");
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(kernel) ?? [];
  const faults: Fault[] = [];
  if (variant !== "nft" && variant !== "legacy")
    faults.push(fault("", "--iptables-variant", variant, "must be nft or legacy"));
  if (major === undefined) faults.push(fault("", "--kernel", kernel, "must be a kernel version such as 6.1"));
  if (faults.length > 0) throw new ConfigError(faults);
  const nfacct = boolFlag(parsed, "nfacct");
  const tool = config.mode === "nftables" ? "" : `iptables of the ${variant} variant, `;
  return {
    facts: {
      iptables: variant === "legacy" ? "legacy" : "nft",
      randomFully: true,
      nfacct,
      tcpBeLiberal: config.conntrack.tcpBeLiberal,
      kernel: [Number(major), Number(minor)],
    },
    localAddresses: undefined,
    supported: ["IPv4", "IPv6"],
    assumptions: [
      `${tool}kernel ${kernel}, ${nfacct ? "with" : "no"} nfacct; both IP families`,
      "no local addresses but the node's own",
    ],
  };
}

// --- internal ---

function familyFlag(parsed: ParsedFlags): FamilyName | undefined {
  const text = textFlag(parsed, "family");
  const known: Readonly<Record<string, FamilyName>> = { "4": "IPv4", "6": "IPv6", ipv4: "IPv4", ipv6: "IPv6" };
  const family = known[text.toLowerCase()];
  if (text !== "" && family === undefined) throw new ConfigError([fault("", "--family", text, "must be 4 or 6")]);
  return family;
}

function nodeIPFlag(parsed: ParsedFlags): readonly string[] {
  return listFlag(parsed, "node-ip").map((text) => {
    const ip = parseIP(text);
    if (ip === undefined) throw new ConfigError([fault("", "--node-ip", text, "must be an IP address")]);
    return ip;
  });
}

function assumedNode({ snapshot, nodeName }: Objects, ips: readonly string[]): NodeInfo | undefined {
  const { node } = snapshot;
  if (ips.length === 0) return node;
  if (node !== undefined) return { ...node, addresses: ips };
  return { name: nodeName, uid: "", addresses: ips, podCIDRs: [], zone: "", deleting: false, toBeDeleted: false };
}

function nodeAssumptions(
  { snapshot, nodeName, nodeReason }: Objects,
  node: NodeInfo | undefined,
  ips: readonly string[],
): readonly string[] {
  const reason = nodeReason === "" ? "" : ` (${nodeReason})`;
  const unknown =
    snapshot.node === undefined
      ? ": there is no such Node, so no endpoint but by its name is local, and no zone or pod range is known; --node-name names another"
      : "";
  const addresses = ips.length === 0 ? "no address of its own (--node-ip gives one)" : `addresses ${ips.join(", ")}`;
  const zone = node === undefined || node.zone === "" ? "" : `, zone ${node.zone}`;
  return [`node ${nodeName}${reason}, ${addresses}${zone}${unknown}`];
}
