/** The manual page in roff (man macros), from the flag tables. Pure. */
import type { Flag, FlagTable } from "./flag.ts";
import type { CommandGrammar } from "./grammar.ts";
import { valueWord } from "./help.ts";

export interface Edition {
  readonly version: string;
  /** `2026-11-30`, or another word. */
  readonly date: string;
}

export function manPage(commands: readonly CommandGrammar[], own: FlagTable, edition: Edition): string {
  return [
    `.TH KUBE\\-PROXY 8 "${roff(edition.date)}" "kube\\-proxy ${roff(edition.version)}" "Kubernetes"`,
    ".SH NAME",
    "kube\\-proxy \\- keeps a node's kernel rules in step with Services",
    ".SH SYNOPSIS",
    ".B kube\\-proxy",
    "[\\fIflags\\fR]",
    ...commands.flatMap(({ name, module }) => [".br", `.B kube\\-proxy ${roff(name)}`, roff(module.usage)]),
    ".SH DESCRIPTION",
    ...paragraphs(description),
    ".SH COMMANDS",
    ...commands.flatMap(({ name, summary }) => [".TP", `.B ${roff(name)}`, roff(summary)]),
    ".SH OPTIONS",
    ...optionsByTopic(own),
    ...commands.flatMap(commandSection),
    ".SH EXIT STATUS",
    ...exitCodes.flatMap(([code, text]) => [".TP", `.B ${code}`, roff(text)]),
    ".SH FILES",
    ...files.flatMap(([file, text]) => [".TP", `.I ${roff(file)}`, roff(text)]),
    ".SH EXAMPLES",
    ...examples.flatMap(([text, line]) => [".PP", roff(text), ".PP", ".RS", ".EX", roff(line), ".EE", ".RE"]),
    ".SH SEE ALSO",
    ".BR nft (8),",
    ".BR iptables (8),",
    ".BR ipvsadm (8),",
    ".BR ipset (8),",
    ".BR conntrack (8)",
    "",
  ]
    .filter((line, i, all) => line !== "" || i === all.length - 1)
    .join("\n");
}

// --- internal ---

const description: readonly string[] = [
  "kube-proxy runs on every node of a Kubernetes cluster. It watches Services and EndpointSlices, and writes the rules " +
    "that lead traffic for the addresses of a Service to its endpoints: with nftables, iptables or ipvs.",
  "When it ends, its rules stay in place; kube-proxy --cleanup removes them. SIGTERM and SIGINT end it with exit code 0.",
  "With --manifests it takes its objects from files instead of an API server.",
];

const exitCodes: readonly (readonly [string, string])[] = [
  [
    "0",
    "Ended as asked: by a signal, after --cleanup, --init-only or --write-config-to, or because the configuration file changed and the supervisor is to start it again.",
  ],
  [
    "1",
    "A mistake in the command line or the configuration, or something that keeps the mode from running. The last line on standard error says what.",
  ],
];

const files: readonly (readonly [string, string])[] = [
  [
    "/var/lib/kube-proxy/config.conf",
    "The configuration (KubeProxyConfiguration) where kubeadm puts it; named by --config.",
  ],
  [
    "/var/lib/kube-proxy/kubeconfig.conf",
    "Access to the API server; named by clientConnection.kubeconfig in the configuration, or --kubeconfig.",
  ],
];

const examples: readonly (readonly [string, string])[] = [
  ["Look whether this host can run a mode:", "kube-proxy doctor --mode nftables"],
  ["See what would be written for a folder of manifests:", "kube-proxy render --mode nftables --manifests ./manifests"],
  ["Compare the kernel with what it should hold:", "kube-proxy diff --config /var/lib/kube-proxy/config.conf"],
  ["Follow the running process:", "kube-proxy status --watch"],
];

function commandSection({ name, flags, module }: CommandGrammar): readonly string[] {
  return [
    `.SH "KUBE\\-PROXY ${roff(name.toUpperCase())}"`,
    ...paragraphs([module.about]),
    ...optionsByTopic(flags.filter((flag) => flag.name !== "help")),
  ];
}

function optionsByTopic(flags: FlagTable): readonly string[] {
  const topics = [...new Set(flags.map(({ topic }) => topic))];
  return topics.flatMap((topic) => [
    `.SS "${roff(topic)}"`,
    ...flags.filter((flag) => flag.topic === topic).flatMap(option),
  ]);
}

function option(flag: Flag): readonly string[] {
  const word = valueWord(flag).trim();
  const short = flag.short === undefined ? "" : `\\fB\\-${flag.short}\\fR, `;
  const value = word === "" ? "" : word.startsWith("[") ? roff(word) : ` \\fI${roff(word)}\\fR`;
  const usual = flag.default === "" || flag.default === "false" ? "" : ` Default: ${flag.default}.`;
  const old = flag.deprecated === undefined ? "" : ` Deprecated: use ${flag.deprecated}.`;
  const field = flag.field === undefined ? "" : ` Field: ${flag.field}.`;
  return [".TP", `${short}\\fB\\-\\-${roff(flag.name)}\\fR${value}`, roff(flag.help + usual + old + field)];
}

function paragraphs(texts: readonly string[]): readonly string[] {
  return texts.flatMap((text, i) => [...(i === 0 ? [] : [".PP"]), roff(text)]);
}

/** Backslashes, hyphens that are typed as such, quotes in macro arguments, and lines that would be requests. */
function roff(text: string): string {
  const marks: Readonly<Record<string, string>> = { "\\": "\\e", "-": "\\-", '"': "\\(dq" };
  return text.replace(/[\\"-]/g, (mark) => marks[mark] ?? mark).replace(/^([.'])/, "\\&$1");
}
