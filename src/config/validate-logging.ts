/** What is wrong with the logging section. */
import type { Config } from "./config.ts";
import { logFormats } from "./defaults.ts";
import { printDuration } from "./duration.ts";
import { gateOn } from "./feature-gates.ts";
import { type Settings, textOf } from "./settings.ts";
import type { Refuse } from "./validate.ts";

export function validateLogging(config: Config, given: Settings, refuse: Refuse): void {
  const { format, flushFrequency, verbosity, vmodule, options } = config.logging;
  const wanted = textOf(given, "logging.format");
  if (wanted !== "" && !logFormats.some((known) => known === wanted)) {
    refuse("logging.format", wanted, `must be one of ${logFormats.join(", ")}`);
  }
  if (flushFrequency < 0) refuse("logging.flushFrequency", printDuration(flushFrequency), "must not be negative");
  if (verbosity < 0) refuse("logging.verbosity", verbosity, "must not be negative");
  if (format !== "text" && vmodule.length > 0) {
    refuse("logging.vmodule", undefined, "works with logging.format text only");
  }
  vmodule.forEach(({ filePattern }, index) => {
    if (filePattern === "" || /[=,]/.test(filePattern)) {
      refuse(`logging.vmodule[${index}].filePattern`, filePattern, "must not be empty and not hold = or ,");
    }
  });
  if (gateOn(config, "LoggingAlphaOptions")) return;
  for (const name of logFormats) {
    const { splitStream, infoBufferSize } = options[name];
    const needed = "is an alpha option: it needs the feature gate LoggingAlphaOptions";
    if (splitStream) refuse(`logging.options.${name}.splitStream`, splitStream, needed);
    if (!/^[+-]?0[A-Za-z]*$/.test(infoBufferSize)) {
      refuse(`logging.options.${name}.infoBufferSize`, infoBufferSize, needed);
    }
  }
}
