/** Reads the kernel state of the namespace that this process is in, in canonical form, by WHAT. */
import { existsSync, readFileSync } from "node:fs";
import {
  canonicalAddresses,
  canonicalAnswer,
  canonicalIpset,
  canonicalIptables,
  canonicalIpvs,
  canonicalNft,
} from "./canonical.ts";
import type { Mode } from "./case-file.ts";

/** Names as in the recorded sysctl files; those that this kernel lacks are left out there and here. */
export function readSysctls(names: readonly string[]): string {
  const lines = names.flatMap((name) => {
    const path = `/proc/sys/${name.replaceAll(".", "/")}`;
    return existsSync(path) ? [`${name} = ${readFileSync(path, "utf8").trim()}\n`] : [];
  });
  return lines.join("");
}

/** One kind of state; empty when there is nothing. */
export function readState(
  what: string,
  mode: Mode,
  expected: string,
  ports: readonly number[],
): Promise<string> | string {
  switch (what) {
    case "iptables":
    case "ip6tables":
      return canonicalIptables(output(`${what}-save`), mode);
    case "nft-ip":
      return canonicalNft(output("nft", "-s", "list", "table", "ip", "kube-proxy"));
    case "nft-ip6":
      return canonicalNft(output("nft", "-s", "list", "table", "ip6", "kube-proxy"));
    case "ipvs":
      return canonicalIpvs(output("ipvsadm", "-Sn"));
    case "ipset":
      return canonicalIpset(output("ipset", "save"));
    case "addrs":
      return canonicalAddresses(output("ip", "-o", "addr", "show", "dev", "kube-ipvs0"));
    case "sysctl":
      return readSysctls(expected.split("\n").flatMap((line) => line.split(" = ")[0] || []));
    case "http":
      return readAnswers(ports);
    default:
      throw new Error(`unknown kind of recording: ${what}`);
  }
}

/** Every kind that a mode may leave something of, so that what was not recorded must not be there. */
export function kindsOf(mode: Mode): readonly string[] {
  const own = { iptables: [], nftables: ["nft-ip", "nft-ip6"], ipvs: ["ipvs", "ipset", "addrs"] }[mode];
  return mode === "nftables" ? own : ["iptables", "ip6tables", ...own];
}

/** A recorded `http` file in our canonical form: Python wrote its JSON with other spaces. */
export function canonicalRecordedAnswers(text: string): string {
  const lines = text.split("\n").filter((l) => l !== "");
  return lines
    .map((l) => {
      const [port = "", status = "", ...body] = l.split(" ");
      return `${canonicalAnswer(Number(port), Number(status), status === "0" ? "refused" : body.join(" "))}\n`;
    })
    .join("");
}

async function readAnswers(ports: readonly number[]): Promise<string> {
  let out = "";
  for (const port of ports) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}/`, {
        signal: AbortSignal.timeout(2000),
        keepalive: false,
      });
      out += `${canonicalAnswer(port, response.status, await response.text())}\n`;
    } catch {
      out += `${canonicalAnswer(port, 0, "refused")}\n`;
    }
  }
  return out;
}

function output(tool: string, ...args: readonly string[]): string {
  const { stdout, exitCode } = Bun.spawnSync([tool, ...args], { stderr: "ignore" });
  return exitCode === 0 ? stdout.toString() : "";
}
