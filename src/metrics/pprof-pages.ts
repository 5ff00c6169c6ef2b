/** Pages under /debug/pprof/: an index that says what Bun can give in place of Go's profiles, and the profiles. */
import { type Connection, type HttpAnswer, plainAnswer, requestQuery } from "../model/http-answer.ts";
import { type Profiler, ProfilerBusyError } from "./profiling.ts";

const index = `/debug/pprof/

kube-proxy on Bun: these are not Go pprof files, "go tool pprof" does not read them.

profile?seconds=30   CPU profile as .cpuprofile JSON (1 to 240 seconds, default 30); open in Chrome DevTools (Performance) or VS Code
heap                 heap snapshot as V8 .heapsnapshot JSON; open in Chrome DevTools (Memory). Syncing stands still while it is taken.
                     It holds the API credentials: given over loopback only
cmdline              the command line, separated by NUL bytes

There is no goroutine, allocs, block, mutex, threadcreate, symbol or trace profile.
`;

export async function pprofPage(
  profiler: Profiler,
  path: string,
  request: Request,
  connection: Connection,
): Promise<HttpAnswer> {
  switch (path.slice("/debug/pprof".length)) {
    case "":
      return plainAnswer(301, "", { Location: "/debug/pprof/" });
    case "/":
      return plainAnswer(200, index);
    case "/cmdline":
      return plainAnswer(200, [process.execPath, ...process.argv.slice(2)].join("\0"));
    case "/heap":
      if (!connection.local) return plainAnswer(403, "a heap snapshot holds the API credentials: ask over loopback\n");
      return download("heap.heapsnapshot", profiler.heapSnapshot());
    case "/profile":
      return cpuProfile(profiler, request, connection);
    default:
      return plainAnswer(404, `Unknown profile, see /debug/pprof/\n`);
  }
}

async function cpuProfile(profiler: Profiler, request: Request, connection: Connection): Promise<HttpAnswer> {
  const text = requestQuery(request.url).get("seconds") ?? "30";
  const seconds = Number(text);
  if (!/^\d+$/.test(text) || seconds < 1 || seconds > 240) {
    return plainAnswer(400, "seconds must be a whole number from 1 to 240\n");
  }
  connection.extend(seconds + 15);
  try {
    return download("cpu.cpuprofile", await profiler.cpuProfile(seconds, request.signal));
  } catch (cause) {
    if (cause instanceof ProfilerBusyError) return plainAnswer(409, `${cause.message}\n`);
    throw cause;
  }
}

function download(name: string, body: string): HttpAnswer {
  const headers = {
    "Content-Type": "application/json",
    "Content-Disposition": `attachment; filename="${name}"`,
    "X-Content-Type-Options": "nosniff",
  };
  return { status: 200, headers, body };
}
