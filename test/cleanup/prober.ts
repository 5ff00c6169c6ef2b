/**
 * Connects to the given addresses in turn, N times a second, until SIGTERM; every connection must bring a greeting.
 * `bun test/cleanup/prober.ts RATE HOST PORT [HOST PORT]…`. Prints `probing`, at the end one JSON line (ProbeResult).
 */

export interface ProbeResult {
  readonly attempts: number;
  /** At most 20, each with the milliseconds since the start. */
  readonly failures: readonly string[];
  readonly failed: number;
}

const [rate = "500", ...words] = process.argv.slice(2);
const targets = words.flatMap((host, i) => (i % 2 === 0 ? [{ host, port: Number(words[i + 1]) }] : []));
const started = performance.now();
const failures: string[] = [];
let attempts = 0;
let failed = 0;
let open = 0;
let stopping = false;

function fail(target: (typeof targets)[number], why: string): void {
  failed++;
  if (failures.length < 20) {
    failures.push(`${Math.round(performance.now() - started)} ms: ${target.host}:${target.port}: ${why}`);
  }
}

function attempt(): void {
  const target = targets[attempts++ % targets.length];
  if (target === undefined) throw new Error("no targets");
  open++;
  let settled = false;
  const end = (why?: string): void => {
    if (settled) return;
    settled = true;
    open--;
    clearTimeout(timer);
    if (why !== undefined) fail(target, why);
  };
  // Longer than the kernel needs to try three times: a loss shows as a retransmission, a refusal at once.
  const timer = setTimeout(() => end("no greeting within 5 s"), 5_000);
  Bun.connect({
    hostname: target.host,
    port: target.port,
    socket: {
      data(socket) {
        end();
        // A reset: no TIME_WAIT, so ports never run out.
        socket.terminate();
      },
      error: (_, error) => end(error.message),
      connectError: (_, error) => end(error.message),
      close: () => end("closed without a greeting"),
    },
  }).catch((error) => end(String(error)));
}

const pace = setInterval(() => {
  const due = ((performance.now() - started) / 1000) * Number(rate);
  // After a pause of the process it catches up in bounded bursts.
  for (let i = 0; i < 50 && attempts < due && !stopping; i++) attempt();
}, 5);

process.on("SIGTERM", async () => {
  stopping = true;
  clearInterval(pace);
  while (open > 0) await Bun.sleep(20);
  console.log(JSON.stringify({ attempts, failures, failed } satisfies ProbeResult));
  process.exit(0);
});
console.log("probing");
