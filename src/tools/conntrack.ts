/** The conntrack tool (conntrack-tools 1.4): its listing of UDP flows parsed as a stream, its deletions printed. */
import type { Family } from "../model/family.ts";

/** The parts of a UDP entry that decide whether it is stale. */
export interface UdpFlow {
  /** Where the client sent to. */
  readonly dst: string;
  readonly dport: number;
  /** Where answers come from: the endpoint; the same as the destination when nothing was translated. */
  readonly replySrc: string;
  readonly replySport: number;
}

/** Arguments of `conntrack` that list the UDP flows of a family, one a line. */
export function listUdpArgs(family: Family): readonly string[] {
  return ["-L", "-p", "udp", "-f", family.name.toLowerCase()];
}

/** Reads commands from standard input, one a line; since 1.4.7. */
export const batchArgs: readonly string[] = ["-R", "-"];

/**
 * Arguments that delete all entries that are like this flow in the four values, or (`whole`) in the first two; joined by
 * blanks they are a line for the batch. Zone 0 only: entries of other zones belong to Open vSwitch and the like, which see
 * our addresses untranslated by design. Every such command reads the whole table (measured: 0.5 s with 200,000
 * entries), so callers delete by class, never by flow.
 */
export function deleteArgs(family: Family, flow: UdpFlow, whole: boolean): readonly string[] {
  const original = ["-d", flow.dst, "--dport", String(flow.dport)];
  const reply = whole ? [] : ["-r", flow.replySrc, "--reply-port-src", String(flow.replySport)];
  return ["-D", "-f", family.name.toLowerCase(), "-p", "udp", ...original, ...reply, "-w", "0"];
}

/**
 * One line such as `udp 17 29 src=10.1.0.2 dst=10.96.0.10 sport=4000 dport=53 [UNREPLIED] src=10.1.0.3 dst=10.1.0.2
 * sport=53 dport=4000 mark=0 use=1`, with packet and byte counters after each half where accounting is on. Undefined for
 * anything else, and for entries of another zone than 0.
 */
export function parseUdpFlow(line: string): UdpFlow | undefined {
  if (!line.startsWith("udp ") || line.includes(" zone")) return undefined;
  const second = line.indexOf(" src=", line.indexOf(" src=") + 1);
  if (second === -1) return undefined;
  const dst = addressAfter(line, " dst=", 0);
  const dport = portAfter(line, " dport=", 0);
  const replySrc = addressAfter(line, " src=", second);
  const replySport = portAfter(line, " sport=", second);
  if (dst === undefined || dport === undefined || replySrc === undefined || replySport === undefined) return undefined;
  return { dst, dport, replySrc, replySport };
}

export interface FlowStream {
  /** Text in pieces of any size, as it comes. */
  push(text: string): void;
  end(): void;
}

/** Cuts a stream into lines and hands on the flows; holds no more than one unfinished line. */
export function flowStream(onFlow: (flow: UdpFlow) => void): FlowStream {
  let held = "";
  const take = (line: string) => {
    const flow = parseUdpFlow(line);
    if (flow !== undefined) onFlow(flow);
  };
  return {
    push(text) {
      let from = 0;
      for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", from)) {
        take(held === "" ? text.slice(from, end) : held + text.slice(from, end));
        held = "";
        from = end + 1;
      }
      held += text.slice(from);
    },
    end() {
      take(held);
      held = "";
    },
  };
}

// --- internal ---

/** The text goes back into the tool's input later: nothing but the characters of an address gets through. */
function addressAfter(line: string, name: string, from: number): string | undefined {
  const word = wordAfter(line, name, from);
  return word !== undefined && /^[0-9a-f:.]+$/.test(word) ? word : undefined;
}

function portAfter(line: string, name: string, from: number): number | undefined {
  const word = wordAfter(line, name, from);
  const port = word === undefined ? Number.NaN : Number(word);
  return Number.isInteger(port) && port >= 0 && port <= 65_535 ? port : undefined;
}

function wordAfter(line: string, name: string, from: number): string | undefined {
  const start = line.indexOf(name, from);
  if (start === -1) return undefined;
  const end = line.indexOf(" ", start + name.length);
  return line.slice(start + name.length, end === -1 ? undefined : end);
}
