/** Builds the lab's namespaces, starts the echo servers in them, and takes everything away again. */
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { startEcho } from "./echo.ts";
import { close, open } from "./libc.ts";
import { type Attempt, type Outcome, probe } from "./probe.ts";
import { allPods, families, hostPort, type Pod, podAddress, podPort, type Space, spaces, wiring } from "./topology.ts";
import { Wire } from "./wire.ts";

const nodeSysctls: Readonly<Record<string, string>> = {
  "net/ipv4/ip_forward": "1",
  "net/ipv6/conf/all/forwarding": "1",
  "net/ipv4/conf/all/rp_filter": "0",
  "net/ipv4/conf/all/send_redirects": "0",
  "net/ipv4/conf/default/send_redirects": "0",
  // Hundreds of refusals at once must all be told.
  "net/ipv4/icmp_ratelimit": "0",
  "net/ipv4/icmp_msgs_per_sec": "100000",
  "net/ipv4/icmp_msgs_burst": "100000",
  "net/ipv6/icmp/ratelimit": "0",
};

const everywhere: Readonly<Record<string, string>> = {
  "net/ipv4/conf/all/accept_redirects": "0",
  "net/ipv6/conf/all/accept_redirects": "0",
  "net/ipv6/conf/default/accept_redirects": "0",
  "net/ipv6/conf/all/accept_ra": "0",
  "net/ipv6/conf/default/accept_ra": "0",
  "net/ipv6/conf/all/accept_dad": "0",
  "net/ipv6/conf/default/accept_dad": "0",
  "net/ipv4/ip_local_port_range": "32768 60999",
  // Our servers speak first: a connection that a SYN cookie let half in would hang.
  "net/ipv4/tcp_syncookies": "0",
  "net/ipv4/tcp_max_syn_backlog": "4096",
};

/** Runs a tool to its end; throws with what it said when it fails. */
export function tool(args: readonly string[], input = ""): string {
  const done = Bun.spawnSync([...args], { stdin: Buffer.from(input), stdout: "pipe", stderr: "pipe", timeout: 60_000 });
  if (done.exitCode !== 0) {
    throw new Error(`${args.join(" ")}: exit ${done.exitCode}: ${done.stderr.toString().trim()}`);
  }
  return done.stdout.toString();
}

export class Lab {
  readonly wire = new Wire();
  /** Begins every namespace's name; unique in this run. */
  readonly prefix: string;

  private readonly atExit = (): void => this.end();

  constructor() {
    this.prefix = `kplab-${process.pid}-`;
  }

  space(space: Space): string {
    return `${this.prefix}${space}`;
  }

  /** Removes what labs whose process was killed left behind. */
  private sweep(): void {
    for (const name of existsSync("/run/netns") ? readdirSync("/run/netns") : []) {
      const pid = /^kplab-(\d+)-/.exec(name)?.[1];
      if (pid !== undefined && !existsSync(`/proc/${pid}`)) {
        Bun.spawnSync(["ip", "netns", "del", name], { stderr: "ignore" });
      }
    }
  }

  /** Makes namespaces, links, routes and servers. On failure it removes what it made. */
  build(): void {
    this.sweep();
    process.once("exit", this.atExit);
    try {
      // A kernel that has IPv6 as a module loads it now: its sysctls must exist before they are written.
      close(open("udp", "::1"));
      for (const space of spaces) {
        tool(["ip", "netns", "add", this.space(space)]);
        this.sysctls(space, everywhere);
      }
      for (const space of ["node1", "node2"] as const) {
        this.sysctls(space, nodeSysctls);
      }
      for (const [space, lines] of wiring((s) => this.space(s))) {
        tool(["ip", "-n", this.space(space), "-batch", "-"], `${lines.join("\n")}\n`);
      }
      for (const pod of allPods) {
        const kinds = pod.startsWith("m") ? (["tcp"] as const) : (["tcp", "udp", "sctp"] as const);
        const addresses = families.map((family) => ({ ip: podAddress(pod, family), port: podPort, kinds }));
        startEcho(this.wire, this.space(podSpace(pod)), addresses);
      }
      const any = ["0.0.0.0", "::"].map((ip) => ({ ip, port: hostPort, kinds: ["tcp"] as const }));
      startEcho(this.wire, this.space("node1"), any);
      startEcho(this.wire, this.space("node2"), any);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** Writes values below /proc/sys of one namespace; what this kernel does not have is left. */
  sysctls(space: Space, values: Readonly<Record<string, string>>): void {
    this.wire.inside(this.space(space), () => {
      for (const [name, value] of Object.entries(values)) {
        try {
          writeFileSync(`/proc/sys/${name}`, value);
        } catch (error) {
          if (
            (error as NodeJS.ErrnoException).code !== "ENOENT" &&
            (error as NodeJS.ErrnoException).code !== "EACCES"
          ) {
            throw error;
          }
        }
      }
    });
  }

  /** Runs a tool inside a namespace. */
  run(space: Space, args: readonly string[], input = ""): string {
    return tool(["ip", "netns", "exec", this.space(space), ...args], input);
  }

  /** Serves the lab while `work` is pending. */
  async during<T>(work: Promise<T>): Promise<T> {
    let settled = false;
    const mark = (): void => {
      settled = true;
    };
    work.then(mark, mark);
    await this.wire.until(() => settled, Number.POSITIVE_INFINITY);
    return work;
  }

  /** Makes all attempts at once. */
  probe(attempts: readonly Attempt[]): Promise<Outcome[]> {
    return this.during(Promise.all(attempts.map((attempt) => probe(this.wire, attempt))));
  }

  /** Closes all sockets and removes the namespaces; safe to call twice. */
  end(): void {
    process.off("exit", this.atExit);
    this.wire.end();
    for (const space of spaces) {
      Bun.spawnSync(["ip", "netns", "del", this.space(space)], { stderr: "ignore" });
    }
  }
}

function podSpace(pod: Pod): Space {
  return pod.startsWith("m") ? "crowd" : (`pod-${pod}` as Space);
}
