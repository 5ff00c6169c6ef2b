/** Entry: command line in, exit code out; the only place that exits. */
import { writeFileSync } from "node:fs";
import { commands } from "./cli/commands.ts";
import { runCommand } from "./cli/dispatch.ts";
import { flags } from "./cli/flags.ts";
import { helpText } from "./cli/help.ts";
import { load } from "./cli/load.ts";
import { versionText } from "./cli/version.ts";
import { ConfigError } from "./config/config-error.ts";

const about =
  "kube-proxy keeps this node's kernel rules for Kubernetes Services: iptables, ipvs or nftables, IPv4 and IPv6.";

const output = {
  out: (text: string) => writeAll(1, text),
  err: (text: string) => writeAll(2, text),
  width: process.stdout.columns ?? 80,
};

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    output.err(
      `kube-proxy: unexpected error: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
    process.exit(1);
  },
);

async function main(argv: readonly string[]): Promise<number> {
  const code = await runCommand(argv, output);
  if (code !== undefined) return code;
  try {
    const loaded = await load(argv);
    switch (loaded.kind) {
      case "help":
        output.out(helpText({ usage: ["[flags]"], about, commands, flags }, output.width));
        return 0;
      case "version":
        output.out(`${versionText(loaded.raw)}\n`);
        return 0;
      case "write-config":
        return writeConfig(loaded.path, loaded.text);
      case "run":
      case "cleanup": {
        const { serve } = await import("./app/serve.ts");
        return await serve({ argv, ...loaded });
      }
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const line of error.lines()) output.err(`kube-proxy: ${line}\n`);
    return 1;
  }
}

function writeConfig(path: string, text: string): number {
  try {
    writeFileSync(path, text);
    output.err(`kube-proxy: wrote the effective configuration to ${path}\n`);
    return 0;
  } catch (error) {
    output.err(`kube-proxy: --write-config-to: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  }
}

/** Synchronous, so that nothing is lost at exit (bun.md section 8). */
function writeAll(fd: number, text: string): void {
  try {
    writeFileSync(fd, text);
  } catch {
    // A closed pipe: nobody listens.
  }
}
