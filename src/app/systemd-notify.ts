/** systemd's readiness protocol: datagrams over NOTIFY_SOCKET, also to abstract sockets, and watchdog pings. */

export interface NotifyEnvironment {
  /** Undefined: not started by systemd with Type=notify. */
  readonly socket: string | undefined;
  /** Ping at least this often; 0: no watchdog. */
  readonly watchdogMs: number;
}

/** Reads the variables and takes them out of `env`, so that the tools we start do not inherit them. */
export function takeNotifyEnvironment(env: Record<string, string | undefined>, pid: number): NotifyEnvironment {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec, WATCHDOG_PID: watched } = env;
  for (const name of ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"]) delete env[name];
  const microseconds = Number(usec ?? "");
  const ours = watched === undefined || watched === String(pid);
  const watchdog = socket && ours && Number.isSafeInteger(microseconds) && microseconds > 0;
  return { socket: socket || undefined, watchdogMs: watchdog ? microseconds / 1000 : 0 };
}

export interface Notifier {
  /** How it is sent, for the log; undefined: not at all, and why. */
  readonly way: "socket" | "systemd-notify" | "none";
  readonly problem: string | undefined;
  /** Sends one state, e.g. `READY=1` or `STATUS=…`. Never throws; false: it did not arrive. */
  send(state: string): boolean;
}

/** Picks a way: the C library's sendto, else the systemd-notify program (which needs NotifyAccess=all). */
export async function createNotifier(
  socket: string | undefined,
  program: string | null = Bun.which("systemd-notify"),
  libraries: readonly string[] = cLibraries,
): Promise<Notifier> {
  if (socket === undefined) return none(undefined);
  const address = unixAddress(socket);
  if (address === undefined) return none(`NOTIFY_SOCKET ${JSON.stringify(socket)} is no path and no abstract name`);
  const send = await openSender(address, libraries);
  if (send) return { way: "socket", problem: undefined, send };
  if (program)
    return { way: "systemd-notify", problem: undefined, send: (state) => spawnNotify(program, socket, state) };
  return none("no C library to load and no systemd-notify program: use Type=exec in the unit");
}

/** Pings the watchdog at half its interval. Returns how to stop. `alive`: false withholds the ping. */
export function startWatchdog(notifier: Notifier, watchdogMs: number, alive: () => boolean): () => void {
  if (watchdogMs <= 0 || notifier.way === "none") return () => {};
  const timer = setInterval(() => void (alive() && notifier.send("WATCHDOG=1")), Math.max(watchdogMs / 2, 50));
  return () => clearInterval(timer);
}

function none(problem: string | undefined): Notifier {
  return { way: "none", problem, send: () => false };
}

const familyUnix = 1;
const maxPath = 108;

/** A `sockaddr_un` of the right length: an abstract name has no final NUL, and its length counts. */
export function unixAddress(socket: string): Uint8Array | undefined {
  if (!/^[/@]./.test(socket)) return undefined;
  const path = new TextEncoder().encode(socket.startsWith("@") ? `\0${socket.slice(1)}` : `${socket}\0`);
  if (path.length > maxPath) return undefined;
  const bytes = new Uint8Array(2 + path.length);
  new DataView(bytes.buffer).setUint16(0, familyUnix, new Uint8Array(new Uint16Array([1]).buffer)[0] === 1);
  bytes.set(path, 2);
  return bytes;
}

const cLibraries = ["libc.so.6", "libc.so", `libc.musl-${process.arch === "arm64" ? "aarch64" : "x86_64"}.so.1`];
const datagramNonblockCloexec = 2 | 0o4000 | 0o2000000;
const dontWaitNoSignal = 0x40 | 0x4000;

/** Bun has no unix datagrams (bun.md section 7: its FFI works in the compiled glibc binary). Undefined: no library. */
async function openSender(
  address: Uint8Array,
  libraries: readonly string[],
): Promise<((state: string) => boolean) | undefined> {
  try {
    const { dlopen } = await import("bun:ffi");
    const symbols = {
      socket: { args: ["i32", "i32", "i32"], returns: "i32" },
      sendto: { args: ["i32", "buffer", "u64", "i32", "buffer", "u32"], returns: "i64" },
    } as const;
    for (const library of libraries) {
      try {
        const libc = dlopen(library, symbols).symbols;
        const fd = libc.socket(familyUnix, datagramNonblockCloexec, 0);
        if (fd < 0) continue;
        return (state) => {
          const data = new TextEncoder().encode(state);
          return Number(libc.sendto(fd, data, data.length, dontWaitNoSignal, address, address.length)) === data.length;
        };
      } catch {
        // The next name may exist.
      }
    }
  } catch {
    // A runtime without FFI.
  }
  return undefined;
}

/** Fire and forget: its exit code comes too late to matter. */
function spawnNotify(program: string, socket: string, state: string): boolean {
  try {
    // Without --no-block it waits until systemd has read what it sent.
    Bun.spawn([program, "--no-block", ...state.split("\n")], {
      env: { NOTIFY_SOCKET: socket },
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      timeout: 5_000,
    });
    return true;
  } catch {
    return false;
  }
}
