/** Completion for zsh. Pure: from the flag tables to a function for `fpath`. */
import type { Flag, FlagTable } from "../flag.ts";
import { type CommandGrammar, valueKind } from "../grammar.ts";

export function zshScript(commands: readonly CommandGrammar[], own: FlagTable): string {
  return `#compdef kube-proxy
# zsh completion of kube-proxy, made by: kube-proxy completion zsh
_kube-proxy() {
  local -a commands
  commands=(
${commands.map(({ name, summary }) => `    ${quoted(`${name}:${summary}`)}`).join("\n")}
  )
  if (( CURRENT > 2 )); then
    case $words[2] in
${commands.map(commandCase).join("\n")}
    esac
  fi
  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
    _describe -t commands command commands
    return
  fi
  _arguments \\
${own.map(flagLine).join(" \\\n")}
}
if [[ $funcstack[1] == _kube-proxy ]]; then _kube-proxy "$@"; else compdef _kube-proxy kube-proxy; fi
`;
}

// --- internal ---

function commandCase({ name, flags, module }: CommandGrammar): string {
  const words = module.words === undefined ? [] : [`        ${quoted(`1:word:(${module.words.join(" ")})`)}`];
  return `      ${name})
        shift words; (( CURRENT-- ))
        _arguments \\
${[...words, ...flags.map(flagLine)].join(" \\\n")}
        return ;;`;
}

function flagLine(flag: Flag): string {
  const value = valueKind(flag);
  const about = flag.help.split(/(?<=[.;:]) /)[0]?.replace(/[.;:]$/, "") ?? "";
  const text = about.replace(/[[\]:\\]/g, (mark) => `\\${mark}`);
  const action = { none: "", any: ":value: ", file: ":file:_files", choice: "" }[value.kind];
  const choice = value.kind === "choice" ? `:value:(${value.choices.join(" ")})` : action;
  const long = `--${flag.name}${value.kind === "none" ? "" : "="}`;
  const row = (spelled: string): string => `    ${quoted(`*${spelled}[${text}]${choice}`)}`;
  return flag.short === undefined ? row(long) : `${row(long)} \\\n${row(`-${flag.short}`)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
