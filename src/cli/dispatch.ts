/** First word of the command line to a subcommand, run through citty; anything else is the proxy itself. */
import { ConfigError } from "../config/config-error.ts";
import { type Command, type CommandModule, commands, type Output } from "./commands.ts";
import { type FlagTable, flag } from "./flag.ts";
import { helpText } from "./help.ts";
import { boolFlag, parseFlags } from "./parse.ts";
import { Trouble, troubleLine } from "./trouble.ts";

export const helpFlag: FlagTable = [flag("General", "help", "bool", "Print this text and exit.", { short: "h" })];

/**
 * Runs the subcommand that `argv` begins with and gives its exit code; undefined when it begins with none.
 * Errors that are not the user's mistake are thrown.
 */
export async function runCommand(
  argv: readonly string[],
  output: Output,
  known: readonly Command[] = commands,
): Promise<number | undefined> {
  const found = known.find(({ name }) => name === argv[0]);
  if (found === undefined) return undefined;
  const [{ command }, citty] = await Promise.all([found.load(), import("citty")]);
  const definition = citty.defineCommand({
    meta: { name: found.name, description: found.summary },
    run: () => runModule(found, command, argv.slice(1), output),
  });
  // citty's own parser knows neither Go's booleans nor repeated flags: it gets no arguments.
  const { result } = await citty.runCommand(definition, { rawArgs: [] });
  return typeof result === "number" ? result : 0;
}

/** Parses the command's flags and runs it; the user's mistakes are lines on stderr and exit code 1. */
export async function runModule(
  { name }: Pick<Command, "name">,
  command: CommandModule,
  argv: readonly string[],
  output: Output,
): Promise<number> {
  const flags = [...command.flags, ...helpFlag];
  try {
    const parsed = parseFlags(flags, argv);
    if (!boolFlag(parsed, "help")) return await command.run(parsed, output);
    const page = { usage: [`${name} ${command.usage}`], about: command.about, commands: [], flags };
    output.out(helpText(page, output.width));
    return 0;
  } catch (error) {
    const line = troubleLine(error);
    if (line === undefined && !(error instanceof ConfigError)) throw error;
    const lines = error instanceof ConfigError ? error.lines() : [line];
    for (const one of lines) output.err(`kube-proxy ${name}: ${one}\n`);
    return (error instanceof Trouble ? error.code : undefined) ?? command.trouble ?? 1;
  }
}
