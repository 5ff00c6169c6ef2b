/** Completion for fish. Pure: from the flag tables to a script of `complete` lines. */
import type { Flag, FlagTable } from "../flag.ts";
import { type CommandGrammar, valueKind } from "../grammar.ts";

export function fishScript(commands: readonly CommandGrammar[], own: FlagTable): string {
  const lines = [
    ...commands.map(
      ({ name, summary }) =>
        `complete -c kube-proxy -n 'test (count (commandline -opc)) -eq 1' -a ${name} -d ${quoted(summary)}`,
    ),
    ...own.map((flag) => flagLine("__kube_proxy_is ''", flag)),
    ...commands.flatMap(({ name, flags, module }) => [
      ...(module.words ?? []).map((word) => `complete -c kube-proxy -n '__kube_proxy_is ${name}' -a ${word}`),
      ...flags.map((flag) => flagLine(`__kube_proxy_is ${name}`, flag)),
    ]),
  ];
  return `# fish completion of kube-proxy, made by: kube-proxy completion fish
function __kube_proxy_is --description 'The command line is about this command, or about none'
  set -l words (commandline -opc)
  set -l command ''
  if test (count $words) -gt 1; and contains -- $words[2] ${commands.map(({ name }) => name).join(" ")}
    set command $words[2]
  end
  test "$command" = "$argv[1]"
end
complete -c kube-proxy -f
${lines.join("\n")}
`;
}

// --- internal ---

function flagLine(condition: string, flag: Flag): string {
  const value = valueKind(flag);
  const about = flag.help.split(/(?<=[.;:]) /)[0]?.replace(/[.;:]$/, "") ?? "";
  const spelled = `-l ${flag.name}${flag.short === undefined ? "" : ` -s ${flag.short}`}`;
  const takes = { none: "", any: " -x", file: " -r -F", choice: " -x" }[value.kind];
  const choices = value.kind === "choice" ? ` -a ${quoted(value.choices.join(" "))}` : "";
  return `complete -c kube-proxy -n ${quoted(condition)} ${spelled}${takes}${choices} -d ${quoted(about)}`;
}

/** In fish only \\ and ' are special within single quotes. */
function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, (mark) => `\\${mark}`)}'`;
}
