/**
 * What a line of tool input may look like, written down here by hand and not taken from the code that prints it: anything
 * else is an injection. Gives what is wrong, or undefined.
 */
import type { ExecStep, Step } from "../../src/model/step.ts";
import { marker } from "./objects.ts";

export function faultOf(steps: readonly Step[]): string | undefined {
  for (const step of steps) {
    const wrong = step.kind === "exec" ? (argumentFault(step) ?? inputFault(step)) : undefined;
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

// --- internal ---

function argumentFault(step: ExecStep): string | undefined {
  const wrong = step.args.find((arg) => /[^\x20-\x7e]/.test(arg) || arg.includes(marker));
  return wrong === undefined ? undefined : `${step.tool}: argument ${JSON.stringify(wrong)}`;
}

function inputFault(step: ExecStep): string | undefined {
  const text = (step.input ?? []).join("");
  if (text.includes("polluted")) return "a polluted prototype";
  if (step.tool === "nft") {
    const wrong = controlFault(text) ?? nftTextFault(text);
    return wrong === undefined ? undefined : `nft: ${wrong}`;
  }
  for (const line of text.split("\n")) {
    const wrong = line === "" ? undefined : lineFault(step, line);
    if (wrong !== undefined) return `${step.tool}: ${wrong}: ${JSON.stringify(line.slice(0, 400))}`;
  }
  return undefined;
}

function lineFault(step: ExecStep, line: string): string | undefined {
  const control = controlFault(line);
  if (control !== undefined) return control;
  if (/^ip6?tables-restore$/.test(step.tool)) return iptablesFault(line);
  if (step.tool === "ipset") return plain(line, /^(create|add|del|destroy|flush|swap) KUBE-[A-Z0-9-]+( |$)/);
  if (step.tool === "ipvsadm") return plain(line, /^-(A|E|D|a|e|d) -[tu] |^-[AEDaed] --?[a-z-]+ /);
  if (step.tool === "ip") return plain(line, /^(addr|address|link|-?[46]? ?addr) /);
  return "a tool that has no input";
}

function controlFault(text: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return /[\x00-\x08\x0b-\x1f\x7f\u2028\u2029]/.test(text) ? "control character" : undefined;
}

/** No quotes at all. */
function plain(line: string, start: RegExp): string | undefined {
  if (!start.test(line)) return "unknown verb";
  return /^[A-Za-z0-9 .,:/[\]_=-]+$/.test(line) ? undefined : "odd character";
}

/** Quoted strings taken out; undefined when a quote stays open. */
function unquoted(line: string): string | undefined {
  const rest = line.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return rest.replaceAll('""', "").includes('"') ? undefined : rest;
}

const iptablesTargets = /^(KUBE-[A-Z0-9-]+|ACCEPT|DROP|REJECT|RETURN|MARK|MASQUERADE|DNAT)$/;
const builtin = /^(INPUT|OUTPUT|FORWARD|PREROUTING|POSTROUTING)$/;

function iptablesFault(line: string): string | undefined {
  if (/^(\*(mangle|filter|nat)|COMMIT|#|:KUBE-[A-Z0-9-]{1,24} - \[0:0\])$/.test(line)) return undefined;
  // The comment that tells whose lines follow: one JSON text.
  if (line.startsWith('# "')) return typeof JSON.parse(line.slice(2)) === "string" ? undefined : "odd comment";
  const rest = unquoted(line);
  if (rest === undefined) return "open quote";
  if (!/^[A-Za-z0-9 .,:/!_"[\]-]+$/.test(rest)) return "odd character";
  if (rest.includes(marker)) return "hostile text outside of quotes";
  const words = rest.split(" ");
  const [verb = "", chain = ""] = words;
  if (!/^-[ADIFX]$/.test(verb)) return "unknown verb";
  const target = words[words.indexOf("-j") + 1] ?? "";
  if (words.filter((w) => w === "-j").length > 1) return "two targets";
  if (words.includes("-j") && !iptablesTargets.test(target)) return "unknown target";
  if (/^KUBE-[A-Z0-9-]+$/.test(chain)) return undefined;
  return builtin.test(chain) && target.startsWith("KUBE-") ? undefined : "a chain that is not ours";
}

const nftCommand = /^(add|delete|destroy|flush) (table|chain|rule|set|map) (ip|ip6) kube-proxy( [A-Za-z0-9_./-]+)?$/;
const nftElements = /^(add|delete) element (ip|ip6) kube-proxy [A-Za-z0-9_./-]+ \{$/;
const nftTable = /^table (ip|ip6) kube-proxy \{$/;
const nftObject = /^\t(chain|set|map) [A-Za-z0-9_./-]+ \{$/;
/** All that rules, sets and elements are made of, beside names and numbers. */
const nftWords = new Set(
  `accept comment ct daddr dnat drop dport dynamic elements fib filter flags fully-random goto hook input ip ip6 ipv4_addr
  ipv6_addr inet_proto inet_service iifname l4proto local map mark masquerade meta mod nat new numgen output policy
  postrouting prerouting priority random reject saddr sctp set size srcnat dstnat state status tcp th timeout to type
  typeof udp update verdict vmap forward jump offset hairpin type services s m n`.split(/\s+/),
);

type Place = "top" | "table" | "object" | "elements";

/** Blocks as nft lists them, line by line. */
function nftTextFault(text: string): string | undefined {
  let place: Place = "top";
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const next = nftNext(place, line);
    if (typeof next === "object") return `${next.fault}: ${JSON.stringify(line.slice(0, 400))}`;
    place = next;
  }
  return place === "top" ? undefined : "a block stays open";
}

function nftNext(place: Place, line: string): Place | { readonly fault: string } {
  switch (place) {
    case "top":
      if (nftCommand.test(line)) return "top";
      if (nftTable.test(line)) return "table";
      return nftElements.test(line) ? "elements" : { fault: "not about our table" };
    case "table":
      if (line === "}") return "top";
      return nftObject.test(line) ? "object" : { fault: "no chain, set or map" };
    case "object":
      if (line === "\t}") return "table";
      break;
    case "elements":
      if (line === "}") return "top";
      break;
  }
  const fault = nftLineFault(line);
  return fault === undefined ? place : { fault };
}

/** nft knows no escapes: a quote ends the text. */
function nftLineFault(line: string): string | undefined {
  const rest = line.replace(/"[^"]*"/g, " ");
  if (rest.includes('"')) return "open quote";
  if (rest.includes(marker)) return "hostile text outside of quotes";
  if (!/^[A-Za-z0-9 .,:;/{}@!=<>|&^*_[\]-]+$/.test(rest)) return "odd character";
  let depth = 0;
  for (const c of rest) {
    depth += c === "{" ? 1 : c === "}" ? -1 : 0;
    if (depth < 0) return "a brace that closes more than it may";
  }
  if (depth !== 0) return "open brace";
  // After goto, jump and @ there are names; else only words of the language.
  const language = rest.replace(/(goto|jump) [A-Za-z0-9_./-]+|@[A-Za-z0-9_./-]+|[0-9a-f]*:[0-9a-f:.]*/g, " ");
  const unknown = language.match(/[A-Za-z_][A-Za-z0-9_-]*/g)?.find((w) => !nftWords.has(w) && !/^[0-9a-fx]+$/.test(w));
  return unknown === undefined ? undefined : `unknown word ${unknown}`;
}
