/** `kube-proxy man`: the manual page as roff, made from the flag tables. */
import { ConfigError } from "../config/config-error.ts";
import type { CommandModule } from "./commands.ts";
import { grammar, ownFlags } from "./grammar.ts";
import { manPage } from "./man-page.ts";
import { strayWords } from "./parse.ts";
import { buildDate, version } from "./version.ts";

export const command: CommandModule = {
  flags: [],
  usage: "",
  about:
    "Prints the manual page as roff. To read it: kube-proxy man | man -l -. " +
    "To install it: kube-proxy man > /usr/local/share/man/man8/kube-proxy.8. Exit code: 0.",
  run: async (parsed, output) => {
    const faults = strayWords(parsed.words);
    if (faults.length > 0) throw new ConfigError(faults);
    output.out(manPage(await grammar(), ownFlags, { version, date: buildDate.slice(0, 10) }));
    return 0;
  },
};
