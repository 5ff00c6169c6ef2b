/** What a command finds out about the machine it runs on, without trying anything in the kernel. */
import { supportedFamilies } from "../app/host-setup.ts";
import type { Config } from "../config/config.ts";
import { localAddresses } from "../host/addresses.ts";
import { hostFacts } from "../host/facts.ts";
import type { Output } from "./commands.ts";
import type { Machine } from "./situation.ts";
import { commandLog, Trouble } from "./trouble.ts";

/** Throws Trouble where the mode's tool is missing. `name`: the command's, for its warnings. */
export async function thisMachine(name: string, config: Config, output: Output): Promise<Machine> {
  const facts = await hostFacts({ wantNfacct: false });
  if (config.mode !== "nftables" && facts.iptables === "none")
    throw new Trouble('iptables is not installed: install the package "iptables"');
  return {
    facts,
    localAddresses: (await localAddresses()).map(({ ip }) => ip),
    supported: await supportedFamilies(config, commandLog(name, output)),
    assumptions: [],
  };
}
