/** `kube-proxy completion bash|zsh|fish`: a completion script made from the flag tables, so that it cannot be out of date. */
import { ConfigError, fault } from "../config/config-error.ts";
import type { CommandModule } from "./commands.ts";
import { bashScript } from "./completion/bash.ts";
import { fishScript } from "./completion/fish.ts";
import { zshScript } from "./completion/zsh.ts";
import { grammar, ownFlags } from "./grammar.ts";
import { strayWords } from "./parse.ts";

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };
const shells = Object.keys(scripts);

export const command: CommandModule = {
  flags: [],
  usage: "bash|zsh|fish",
  words: shells,
  about:
    "Prints a completion script. bash: source <(kube-proxy completion bash), or put it into /etc/bash_completion.d/kube-proxy. " +
    "zsh: kube-proxy completion zsh > /usr/local/share/zsh/site-functions/_kube-proxy. " +
    "fish: kube-proxy completion fish > ~/.config/fish/completions/kube-proxy.fish. Exit codes: 0 printed, 1 no such shell.",
  run: async (parsed, output) => {
    const [shell, ...more] = parsed.words;
    if (shell === undefined)
      throw new ConfigError([fault("", "SHELL", undefined, `is missing: name one of ${shells.join(", ")}`)]);
    if (shell !== "bash" && shell !== "zsh" && shell !== "fish")
      throw new ConfigError([fault("", "SHELL", shell, `must be one of ${shells.join(", ")}`)]);
    const faults = strayWords(more);
    if (faults.length > 0) throw new ConfigError(faults);
    output.out(scripts[shell](await grammar(), ownFlags));
    return 0;
  },
};
