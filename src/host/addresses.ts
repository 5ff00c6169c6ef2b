/** Addresses of this machine's interfaces: read once, and watched for changes while we run. */
import { networkInterfaces } from "node:os";
import { compareIPs, parseIP } from "../model/ip.ts";
import type { Log } from "../model/log.ts";
import { type ExecOptions, execute } from "./exec.ts";
import { findTool, systemToolDirs } from "./tool-path.ts";

export interface LocalAddress {
  readonly interface: string;
  /** Canonical. */
  readonly ip: string;
}

/** Our own dummy device carries Service addresses, which are no addresses of the node. */
const ownDevice = "kube-ipvs0";

/**
 * Addresses of all interfaces but kube-ipvs0, sorted by address. From `ip -j addr`; where that tool is missing or too
 * old for JSON, from the C library, which leaves out interfaces that are down (libuv's rule).
 */
export async function localAddresses(options: ExecOptions = {}): Promise<readonly LocalAddress[]> {
  const outcome = await execute({ tool: "ip", args: ["-j", "addr", "show"], timeoutMs: 10_000 }, options);
  const listed = outcome.exitCode === 0 ? parseAddresses(outcome.stdout) : undefined;
  return (listed ?? fromLibrary())
    .filter((address) => address.interface !== ownDevice)
    .sort((a, b) => compareIPs(a.ip, b.ip) || (a.interface < b.interface ? -1 : 1));
}

/** Output of `ip -j addr show`; undefined when it is not JSON of that form. */
export function parseAddresses(text: string): LocalAddress[] | undefined {
  let links: unknown;
  try {
    links = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(links)) return undefined;
  return links.flatMap((link: { ifname?: unknown; addr_info?: unknown }) => {
    if (typeof link?.ifname !== "string" || !Array.isArray(link.addr_info)) return [];
    const name = link.ifname;
    return link.addr_info.flatMap((info: { local?: unknown }) => {
      const ip = typeof info?.local === "string" ? parseIP(info.local) : undefined;
      return ip === undefined ? [] : [{ interface: name, ip }];
    });
  });
}

export interface AddressWatchOptions extends ExecOptions {
  readonly log: Log;
  /** Called with the new list whenever it differs from the last one. */
  readonly onChange: (addresses: readonly LocalAddress[]) => void;
  /** Milliseconds between looks that need no event; default 30,000. */
  readonly pollMs?: number;
  /** Milliseconds between an event and the look, so that a burst is one look; default 100. */
  readonly settleMs?: number;
}

/** Looks again at every event of `ip monitor address` (which costs nothing while idle) and, in case that fails, regularly. */
export class AddressWatch {
  readonly #options: AddressWatchOptions;
  #known: string;
  #child: Bun.Subprocess | undefined;
  #settle: Timer | undefined;
  #restart: Timer | undefined;
  readonly #poll: Timer;
  #looking = false;
  #again = false;
  #closed = false;

  /** `initial`: what the caller already acted on. */
  constructor(initial: readonly LocalAddress[], options: AddressWatchOptions) {
    this.#options = options;
    this.#known = JSON.stringify(initial);
    this.#poll = setInterval(() => void this.#look(), options.pollMs ?? 30_000);
    this.#monitor(1000);
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#poll);
    clearTimeout(this.#settle);
    clearTimeout(this.#restart);
    this.#child?.kill("SIGKILL");
  }

  /**
   * Starts the monitor, and again with growing pauses when it ends. On a pseudo terminal of its own: when we are killed
   * the kernel hangs up and it ends with us, while on a pipe it would stay until the next event (and keep a network
   * namespace alive). Without terminals the regular looks remain.
   */
  #monitor(waitMs: number): void {
    const path = findTool("ip", this.#options.toolDirs ?? systemToolDirs);
    if (path === undefined || this.#closed) return;
    try {
      const started = performance.now();
      const child = Bun.spawn([path, "-o", "monitor", "address"], {
        terminal: { cols: 4000, rows: 24, data: (_, chunk) => this.#heard(chunk) },
        cwd: "/",
        env: { PATH: systemToolDirs.join(":"), LC_ALL: "C" },
      });
      this.#child = child;
      void child.exited.then(() => {
        child.terminal?.close();
        if (this.#closed) return;
        const next = performance.now() - started > 60_000 ? 1000 : Math.min(waitMs * 2, 300_000);
        this.#restart = setTimeout(() => this.#monitor(next), waitMs);
        this.#soon();
      });
    } catch (error) {
      this.#options.log.debug(1, "Address events not available, looking regularly", { reason: String(error) });
    }
  }

  /** Which address it was does not matter: everything is read again. */
  #heard(chunk: Uint8Array): void {
    const lines = new TextDecoder().decode(chunk).split("\n");
    if (lines.some((line) => line.trim() !== "" && !line.includes(` ${ownDevice} `))) this.#soon();
  }

  #soon(): void {
    this.#settle ??= setTimeout(() => {
      this.#settle = undefined;
      void this.#look();
    }, this.#options.settleMs ?? 100);
  }

  async #look(): Promise<void> {
    this.#again = this.#looking;
    if (this.#looking || this.#closed) return;
    this.#looking = true;
    try {
      const addresses = await localAddresses(this.#options);
      const text = JSON.stringify(addresses);
      if (this.#closed || text === this.#known) return;
      this.#known = text;
      this.#options.onChange(addresses);
    } catch (error) {
      this.#options.log.warn("Addresses of this machine could not be read, trying again later", {
        reason: String(error),
      });
    } finally {
      this.#looking = false;
      if (this.#again) this.#soon();
    }
  }
}

function fromLibrary(): LocalAddress[] {
  return Object.entries(networkInterfaces()).flatMap(([name, infos]) =>
    (infos ?? []).flatMap((info) => {
      const ip = parseIP(info.address);
      return ip === undefined ? [] : [{ interface: name, ip }];
    }),
  );
}
