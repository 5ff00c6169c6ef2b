/** Entry: command line in, exit code out; the only place that exits. */
import { runCommand } from "./cli/dispatch.ts";
import { load } from "./cli/load.ts";
import { programHelp, standardOutput, writeConfigFile } from "./cli/output.ts";
import { versionText } from "./cli/version.ts";
import { ConfigError } from "./config/config-error.ts";

const output = standardOutput();

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
        output.out(programHelp(output.width));
        return 0;
      case "version":
        output.out(`${versionText(loaded.raw)}\n`);
        return 0;
      case "write-config":
        writeConfigFile(loaded.path, loaded.text);
        output.err(`kube-proxy: wrote the effective configuration to ${loaded.path}\n`);
        return 0;
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
