/** `kube-proxy status`: asks the running process over its metrics address, once or again and again. */
import { get } from "node:http";
import { type StatusJson, statusJsonPath } from "../app/status-json.ts";
import { parseIPPort } from "../config/address.ts";
import { ConfigError, fault } from "../config/config-error.ts";
import { isUnspecified, joinHostPort } from "../model/ip.ts";
import { field } from "../model/json.ts";
import { commandConfig } from "./command-config.ts";
import type { CommandModule, Output } from "./commands.ts";
import { type FlagTable, flag } from "./flag.ts";
import { flags } from "./flags.ts";
import { outputFlag, outputOf } from "./output-flag.ts";
import { boolFlag, numberFlag, type ParsedFlags, strayWords } from "./parse.ts";
import { configFlag } from "./situation-flags.ts";
import { statusText } from "./status-text.ts";
import { Trouble } from "./trouble.ts";

const where = "Which process";
const table: FlagTable = [
  { ...configFlag, topic: where },
  ...flags.filter(({ name }) => name === "metrics-bind-address").map((row) => ({ ...row, topic: where })),
  flag("Output", "watch", "bool", "Ask again and again until interrupted.", { short: "w" }),
  flag("Output", "interval", "duration", "Pause between two questions of --watch.", { default: "2s" }),
  outputFlag,
];

/** Exit code when nothing answers. */
const notRunning = 3;

export const command: CommandModule = {
  flags: table,
  usage: "[flags]",
  about:
    "Asks the kube-proxy that runs on this node, over its metrics address, how it is: mode, last syncs and their stages, pending changes, " +
    "Services left out, repairs, age of what the API server said. Exit codes: 0 healthy, 1 it answers but its rules are not up to date, " +
    "2 the question was wrong, 3 nothing answers: it does not run, or elsewhere.",
  trouble: 2,
  run: async (parsed, output) => {
    const interval = numberFlag(parsed, "interval", 2_000);
    const tooShort = fault("", "--interval", `${interval}ms`, "must be at least 100ms");
    const faults = [...strayWords(parsed.words), ...(interval < 100 ? [tooShort] : [])];
    if (faults.length > 0) throw new ConfigError(faults);
    const form = outputOf(parsed);
    const url = statusUrl(parsed);
    const print = (status: StatusJson): string =>
      form === "json" ? `${JSON.stringify(status)}\n` : statusText(status);
    if (boolFlag(parsed, "watch")) return watch(url, interval, print, output);
    const status = await askStatus(url);
    output.out(form === "json" ? `${JSON.stringify(status, undefined, 2)}\n` : statusText(status));
    return status.healthy ? 0 : 1;
  },
};

/** Throws Trouble with the code 3 when nothing answers. */
export async function askStatus(url: string): Promise<StatusJson> {
  const { code, body } = await fetchText(url);
  if (code === 200) {
    const status = parsed(body);
    if (typeof field(status, "mode") === "string" && Array.isArray(field(status, "families")))
      return status as StatusJson;
  }
  throw new Trouble(
    `what answers at ${url} is not this kube-proxy (${code}): another program, or another version; --metrics-bind-address or --config names the right address`,
    notRunning,
  );
}

// --- internal ---

/** Where the configuration says that the metrics are; a wildcard address is asked over loopback. */
function statusUrl(parsedFlags: ParsedFlags): string {
  const { config, file } = commandConfig(table, parsedFlags);
  const address = config.metricsBindAddress;
  const at = parseIPPort(address);
  if (at === undefined)
    throw new Trouble(
      `metricsBindAddress is ${address === "" ? "empty" : address}${file === "" ? "" : ` in ${file}`}: the process serves no status; set it to 127.0.0.1:10249`,
    );
  const loopback = at.ip.includes(":") ? "::1" : "127.0.0.1";
  return `http://${joinHostPort(isUnspecified(at.ip) ? loopback : at.ip, at.port)}${statusJsonPath}`;
}

/** node:http asks no proxy of the environment. */
function fetchText(url: string): Promise<{ readonly code: number; readonly body: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ code: number; body: string }>();
  const refuse = (reason: string): void =>
    reject(
      new Trouble(
        `no kube-proxy answers at ${url} (${reason}): does it run (systemctl status kube-proxy, or kubectl -n kube-system get pods -o wide), and with this metricsBindAddress?`,
        notRunning,
      ),
    );
  const request = get(url, { timeout: 5_000 }, (response) => {
    let body = "";
    response.setEncoding("utf8");
    response.on("data", (chunk: string) => {
      body += chunk;
    });
    response.on("end", () => resolve({ code: response.statusCode ?? 0, body }));
  });
  request.on("timeout", () => request.destroy(new Error("no answer within 5 s")));
  request.on("error", (error: Error & { code?: string }) => {
    const refused = ["ECONNREFUSED", "ConnectionRefused"].includes(error.code ?? "");
    refuse(refused ? "connection refused" : error.message);
  });
  return promise;
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** Until SIGINT or SIGTERM; a process that is away for a moment is waited for. Gives the last answer's exit code. */
async function watch(
  url: string,
  interval: number,
  print: (status: StatusJson) => string,
  output: Output,
): Promise<number> {
  let stopped = false;
  const end = Promise.withResolvers<void>();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      stopped = true;
      end.resolve();
    });
  const clear = process.stdout.isTTY === true ? "\x1b[H\x1b[2J\x1b[3J" : "";
  let code = notRunning;
  let first = true;
  while (!stopped) {
    let text: string;
    try {
      const status = await askStatus(url);
      code = status.healthy ? 0 : 1;
      text = print(status);
    } catch (error) {
      if (!(error instanceof Trouble)) throw error;
      code = notRunning;
      text = `${error.message}\n`;
    }
    output.out(clear + (first || clear !== "" || text.startsWith("{") ? "" : "\n") + text);
    first = false;
    if (!stopped) await Promise.race([end.promise, Bun.sleep(interval)]);
  }
  return code;
}
