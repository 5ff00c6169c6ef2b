/** The flag --output of subcommands that answer people and programs. */
import { ConfigError, fault } from "../config/config-error.ts";
import { flag } from "./flag.ts";
import { type ParsedFlags, textFlag } from "./parse.ts";

export const outputFlag = flag("Output", "output", "string", "Form of the answer: text or json.", {
  short: "o",
  default: "text",
  placeholder: "form",
});

export function outputOf(parsed: ParsedFlags): "text" | "json" {
  const form = textFlag(parsed, "output", "text");
  if (form !== "text" && form !== "json") throw new ConfigError([fault("", "--output", form, "must be text or json")]);
  return form;
}
