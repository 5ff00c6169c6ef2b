/** Steps as a shell script that does the same with the same tools: to read, to keep, or to run by hand. */
import type { ExecStep, Step } from "../model/step.ts";

const end = "END_OF_INPUT";

/** One step: a comment line that says what it is for, then the command, its input as a here-document. */
export function stepText(step: Step): string {
  const about = `# ${step.about.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")}\n`;
  switch (step.kind) {
    case "exec":
      return about + execText(step);
    case "sysctl":
      return about + sysctlText(step);
    case "pause":
      return `${about}sleep ${step.ms / 1000}\n`;
  }
}

// --- internal ---

function execText({ tool, args, input, mayFail }: ExecStep): string {
  const command = [tool, ...args].map(shellWord).join(" ");
  const failing = mayFail === true ? " || true" : "";
  if (input === undefined) return `${command}${failing}\n`;
  const text = input.join("");
  // No tool's language has such a line; were there one, the rest of the input must not become commands.
  if (text.split("\n").includes(end)) throw new Error(`a line of the input for ${tool} is ${end}`);
  return `${command} <<'${end}'${failing}\n${text}${text.endsWith("\n") ? "" : "\n"}${end}\n`;
}

function sysctlText(step: Extract<Step, { kind: "sysctl" }>): string {
  const file = `/proc/sys/${step.name}`;
  const test = step.when === "below" ? `[ "$(cat ${file})" -ge ${step.value} ] || ` : "";
  const write = `${test}sysctl -w ${step.name.replaceAll("/", ".")}=${step.value}`;
  return step.optional === true ? `[ ! -e ${file} ] || ${write}\n` : `${write}\n`;
}

function shellWord(word: string): string {
  return /^[A-Za-z0-9_./:=,@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
