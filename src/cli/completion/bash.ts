/** Completion for bash. Pure: from the flag tables to a script that needs no other package. */
import type { Flag, FlagTable } from "../flag.ts";
import { type CommandGrammar, valueKind } from "../grammar.ts";

export function bashScript(commands: readonly CommandGrammar[], own: FlagTable): string {
  const names = commands.map(({ name }) => name);
  const scopes = [{ name: "", flags: own, words: names }, ...commands.map(scopeOf)];
  return `# bash completion of kube-proxy, made by: kube-proxy completion bash
_kube_proxy() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" cmd="" flag words
  COMPREPLY=()
  # bash makes "=" a word of its own
  if [[ $cur == "=" ]]; then flag=$prev; cur=""
  elif [[ $prev == "=" ]]; then flag="\${COMP_WORDS[COMP_CWORD-2]}"
  else flag=$prev; fi
  if (( COMP_CWORD > 1 )); then
    case "\${COMP_WORDS[1]}" in
      ${names.join("|")}) cmd="\${COMP_WORDS[1]}" ;;
    esac
  fi
  case "$cmd $flag" in
${scopes.flatMap(({ name, flags }) => flags.flatMap((flag) => valueCase(name, flag))).join("\n")}
  esac
  case "$cmd" in
${scopes.map(({ name, flags, words }) => `    "${name}") words="${[...words, ...flags.map((flag) => `--${flag.name}`)].join(" ")}" ;;`).join("\n")}
  esac
  # commands come first, and only there
  if [[ -z $cmd && $COMP_CWORD -gt 1 ]]; then words="\${words#${names.join(" ")} }"; fi
  COMPREPLY=( $(compgen -W "$words" -- "$cur") )
}
complete -F _kube_proxy kube-proxy
`;
}

// --- internal ---

function scopeOf({ name, flags, module }: CommandGrammar): {
  readonly name: string;
  readonly flags: FlagTable;
  readonly words: readonly string[];
} {
  return { name, flags, words: module.words ?? [] };
}

function valueCase(command: string, flag: Flag): readonly string[] {
  const value = valueKind(flag);
  const spelled = [`"${command} --${flag.name}"`, ...(flag.short ? [`"${command} -${flag.short}"`] : [])].join("|");
  switch (value.kind) {
    case "none":
      return [];
    case "any":
      return [`    ${spelled}) return ;;`];
    case "file":
      return [`    ${spelled}) compopt -o filenames 2>/dev/null; COMPREPLY=( $(compgen -f -- "$cur") ); return ;;`];
    case "choice":
      return [`    ${spelled}) COMPREPLY=( $(compgen -W "${value.choices.join(" ")}" -- "$cur") ); return ;;`];
  }
}
