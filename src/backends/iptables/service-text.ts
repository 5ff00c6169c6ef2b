/** The lines of one Service being collected, and the finished text taken apart again. */
import type { Context, LocalDetector } from "../../model/context.ts";
import type { ServicePlan } from "../../model/plan.ts";
import { comment, printRule, type Words } from "../../tools/iptables.ts";
import { declare, nobody, ownerLine } from "../../tools/iptables-restore.ts";
import { dispatchChains } from "./names.ts";

export interface RenderedService {
  readonly plan: ServicePlan;
  /** All its chains as restore input, each chain before those that jump to it; empty: none. */
  readonly text: string;
  readonly chains: number;
  readonly rules: number;
  /** Rule lines by position in `dispatchChains`. */
  readonly dispatch: readonly string[];
  /** Their number, likewise. */
  readonly dispatchRules: readonly number[];
}

export interface ChainText {
  readonly name: string;
  readonly rules: string;
}

/** The chains of a rendered Service one by one, in its order. */
export function chainsOf(rendered: RenderedService): ChainText[] {
  if (rendered.text === "") return [];
  return rendered.text
    .slice(rendered.text.indexOf("\n:") + 2, -nobody.length)
    .split("\n:")
    .map((part) => {
      const end = part.indexOf("\n");
      const rules = end < 0 ? "" : part.slice(end + 1);
      return {
        name: part.slice(0, part.indexOf(" ")),
        rules: rules === "" || rules.endsWith("\n") ? rules : `${rules}\n`,
      };
    });
}

/** Collects the lines of one Service. */
export class ServiceText {
  readonly #parts: string[] = [];
  readonly #dispatch: string[] = dispatchChains.map(() => "");
  readonly #dispatchRules: number[] = dispatchChains.map(() => 0);
  #chains = 0;
  #rules = 0;

  constructor(
    readonly context: Context,
    readonly comments: boolean,
  ) {}

  note(text: string): readonly Words[] {
    return this.comments ? [comment(text)] : [];
  }

  chain(name: string, rules: readonly (readonly Words[])[]): void {
    this.#parts.push(declare(name));
    for (const words of rules) this.#parts.push(printRule({ chain: name, words }));
    this.#chains++;
    this.#rules += rules.length;
  }

  send(to: number, words: readonly Words[]): void {
    this.#dispatch[to] += printRule({ chain: dispatchChains[to]?.chain ?? "", words });
    this.#dispatchRules[to] = (this.#dispatchRules[to] ?? 0) + 1;
  }

  finish(plan: ServicePlan): RenderedService {
    const { length } = this.#parts;
    return {
      plan,
      text: length === 0 ? "" : [ownerLine(plan.key), ...this.#parts, nobody].join(""),
      chains: this.#chains,
      rules: this.#rules,
      dispatch: this.#dispatch,
      dispatchRules: this.#dispatchRules,
    };
  }
}

/** `-p PROTO … -m PROTO --dport N`, the comment between them as iptables-save has it. */
export function proto(protocol: string, port: number, note: readonly Words[]): readonly Words[] {
  return [["-p", protocol], ...note, ["-m", protocol, "--dport", String(port)]];
}

/** The address as a prefix of one. */
export function host(out: ServiceText, ip: string): string {
  return `${ip}/${out.context.family.bits}`;
}

/** Interface of local traffic; `+` is the wildcard of iptables. */
export function device(detector: Extract<LocalDetector, { name: string } | { prefix: string }>): string {
  return detector.kind === "bridge" ? detector.name : `${detector.prefix}+`;
}
