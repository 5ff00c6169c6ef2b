/** A kernel of maps that takes the input of ipset, iptables-restore, ipvsadm and ip as strictly as the real tools, for laws. */
import type { Step, StepResult } from "../../../src/model/step.ts";

interface Table {
  readonly chains: Map<string, string[]>;
}

export class FakeKernel {
  /** Line after `-A`, by `FLAG ADDRESS`; and weights by real server. */
  readonly #servers = new Map<string, { options: string; readonly reals: Map<string, string> }>();
  readonly #sets = new Map<string, { readonly create: string; readonly entries: Set<string> }>();
  readonly #addresses = new Set<string>();
  readonly #tables: Readonly<Record<string, Table>> = { nat: { chains: new Map() }, filter: { chains: new Map() } };
  #device = false;

  /** Applies steps in order; throws where a real tool would fail. */
  apply(steps: readonly Step[]): void {
    for (const step of steps) {
      if (step.kind !== "exec") continue;
      const lines = (step.input ?? [])
        .join("")
        .split("\n")
        .filter((l) => l !== "");
      if (step.tool === "ipset") for (const line of lines) this.#ipset(line);
      else if (step.tool.endsWith("tables-restore")) this.#restore(lines);
      else if (step.tool === "ipvsadm") for (const line of lines) this.#ipvsadm(line);
      else if (step.args[0] === "-batch") for (const line of lines) this.#address(line);
      else if (step.args.join(" ") === "link add kube-ipvs0 type dummy") this.#device = true;
      else throw new Error(`not understood: ${step.tool} ${step.args.join(" ")}`);
    }
  }

  /** Answers reading steps with what the real tools would print. */
  answer(steps: readonly Step[]): StepResult[] {
    return steps.map((step) => {
      if (step.kind !== "exec") throw new Error("a reading has only tools");
      return {
        exitCode: step.tool === "ip" && !this.#device ? 1 : 0,
        stdout: this.#print(step.tool, step.args),
        stderr: "",
      };
    });
  }

  /** Everything, sorted; servers of weight 0 left out where asked. */
  dump(withDraining: boolean): string {
    const servers = this.#print("ipvsadm", [])
      .split("\n")
      .filter((l) => withDraining || !l.endsWith("-w 0"));
    const sets = this.#print("ipset", []).split("\n").toSorted();
    const tables = ["nat", "filter"].map((t) => this.#print("iptables-save", ["-t", t]));
    return [servers.toSorted(), sets, [...this.#addresses].toSorted(), tables].flat().join("\n");
  }

  #ipset(line: string): void {
    const [kind, name = "", entry = ""] = line.split(" ");
    const set = this.#sets.get(name);
    if (kind === "create") {
      if (set !== undefined && set.create !== line) throw new Error(`exists otherwise: ${line}`);
      if (set === undefined) this.#sets.set(name, { create: line, entries: new Set() });
      return;
    }
    if (set === undefined) throw new Error(`no set: ${line}`);
    if (kind === "add") set.entries.add(entry);
    else if (kind === "del") set.entries.delete(entry);
    else throw new Error(`not understood: ${line}`);
  }

  #restore(lines: readonly string[]): void {
    let chains = new Map<string, string[]>();
    for (const line of lines) {
      const [verb = "", chain = ""] = line.split(" ");
      const setName = / --match-set (\S+)/.exec(line)?.[1];
      if (setName !== undefined && !this.#sets.has(setName)) throw new Error(`no set: ${line}`);
      if (verb.startsWith("*")) chains = this.#tables[verb.slice(1)]?.chains ?? chains;
      else if (verb.startsWith(":")) chains.set(verb.slice(1), []);
      else if (verb === "-I") chains.set(chain, [`-A${line.slice(2)}`, ...(chains.get(chain) ?? [])]);
      else if (verb === "-A") {
        const rules = chains.get(chain);
        if (rules === undefined) throw new Error(`no chain: ${line}`);
        rules.push(line);
      } else if (verb === "-D") {
        const rules = chains.get(chain) ?? [];
        const at = rules.indexOf(`-A${line.slice(2)}`);
        if (at < 0) throw new Error(`no rule: ${line}`);
        rules.splice(at, 1);
      } else if (verb !== "COMMIT") throw new Error(`not understood: ${line}`);
    }
  }

  #ipvsadm(line: string): void {
    const [kind = "", flag = "", address = "", ...rest] = line.split(" ");
    const key = `${flag} ${address}`;
    const server = this.#servers.get(key);
    if (kind === "-A") {
      if (server !== undefined) throw new Error(`exists: ${line}`);
      this.#servers.set(key, { options: rest.join(" "), reals: new Map() });
      return;
    }
    if (server === undefined) throw new Error(`no server: ${line}`);
    const real = rest[1] ?? "";
    if (kind === "-E") server.options = rest.join(" ");
    else if (kind === "-D") this.#servers.delete(key);
    else if (server.reals.has(real) === (kind === "-a")) throw new Error(`exists or not: ${line}`);
    else if (kind === "-d") server.reals.delete(real);
    else server.reals.set(real, rest.slice(2).join(" "));
  }

  #address(line: string): void {
    const [, verb, address = ""] = line.split(" ");
    if (!this.#device) throw new Error(`no device: ${line}`);
    if (verb === "replace") this.#addresses.add(address);
    else if (!this.#addresses.delete(address)) throw new Error(`no address: ${line}`);
  }

  #print(tool: string, args: readonly string[]): string {
    switch (tool) {
      case "ip":
        return [...this.#addresses].map((a) => `2: kube-ipvs0    inet ${a} scope global kube-ipvs0\n`).join("");
      case "ipset":
        return [...this.#sets.values()]
          .flatMap((s) => [s.create, ...[...s.entries].map((e) => `add ${s.create.split(" ")[1]} ${e}`)])
          .join("\n");
      case "ipvsadm":
        if (args[0] === "-Ln") return this.#connectionTable();
        return [...this.#servers]
          .flatMap(([key, s]) => [
            `-A ${key} ${s.options}`,
            ...[...s.reals].map(([r, how]) => `-a ${key} -r ${r} ${how}`),
          ])
          .join("\n");
      default: {
        const chains = [...(this.#tables[args[1] ?? ""]?.chains ?? [])];
        return [
          `*${args[1]}`,
          ...chains.map(([name]) => `:${name} - [0:0]`),
          ...chains.flatMap(([, rules]) => rules),
          "COMMIT\n",
        ].join("\n");
      }
    }
  }

  /** Nobody has a connection. */
  #connectionTable(): string {
    const protocols: Readonly<Record<string, string>> = { "-t": "TCP", "-u": "UDP", "--sctp-service": "SCTP" };
    return [...this.#servers]
      .flatMap(([key, { reals }]) => {
        const [flag = "", address = ""] = key.split(" ");
        return [`${protocols[flag]}  ${address} rr`, ...[...reals.keys()].map((r) => `  -> ${r} Masq 0 0 0`)];
      })
      .join("\n");
  }
}
