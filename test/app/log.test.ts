/** The log: klog's line form, JSON lines, levels that change while running, text that cannot break out, slow readers. */
import { describe, expect, test } from "bun:test";
import { LineWriter } from "../../src/app/line-writer.ts";
import { createLog, type LogOptions, logOptions, silentLog } from "../../src/app/log.ts";
import { makeConfig } from "../../src/config/defaults.ts";
import { noSettings } from "../../src/config/settings.ts";

const noon = new Date(2026, 10, 30, 12, 0, 0, 7).getTime() + 0.25;

function capture(options: Partial<LogOptions> = {}) {
  const lines: string[] = [];
  const log = createLog({
    ...logOptions(makeConfig(noSettings).logging),
    now: () => noon,
    pid: 1234,
    write: (fd, line) => lines.push(`${fd} ${line}`),
    ...options,
  });
  return { log, lines };
}

describe("text", () => {
  test("klog's form, byte for byte", () => {
    const { log, lines } = capture();
    log.info("Set sysctl", { entry: "net/a", value: 86400, ok: true, ips: ["10.0.0.1", "fd00::1"], none: null });
    log.named("reconciler").error("Sync failed", { err: 'exit 1: "x"' });
    log.warn("Careful");
    expect(lines).toEqual([
      '2 I1130 12:00:00.007250    1234 kube-proxy] "Set sysctl" entry="net/a" value=86400 ok=true ips=["10.0.0.1","fd00::1"] none=<nil>',
      '2 E1130 12:00:00.007250    1234 reconciler] "Sync failed" err="exit 1: \\"x\\""',
      '2 W1130 12:00:00.007250    1234 kube-proxy] "Careful"',
    ]);
  });

  test("nothing breaks a line or reaches the terminal", () => {
    const { log, lines } = capture();
    log.info("a\nb\u001b[31m\u009b\u2028\u202e\ud800", { "k\n=": "v\rx", list: ["\u0000"] });
    expect(lines).toEqual([
      '2 I1130 12:00:00.007250    1234 kube-proxy] "a\\nb\\u001b[31m\\u009b\\u2028\\u202e\\ud800" "k\\n="="v\\rx" list=["\\u0000"]',
    ]);
  });

  test("equal lines are all printed", () => {
    const { log, lines } = capture();
    for (let i = 0; i < 20; i++) log.info("same");
    expect(lines.length).toBe(20);
  });
});

describe("JSON", () => {
  test("one object a line; fields cannot replace its own", () => {
    const { log, lines } = capture({ format: "json" });
    log.info("Hello\u2028", { key: "v\n", n: 1, absent: undefined, msg: "forged" });
    log.error("Bad", { err: "why" });
    expect(lines[0]).not.toContain("\u2028");
    expect(lines.map((line) => JSON.parse(line.slice(2)))).toEqual([
      { ts: noon, caller: "kube-proxy", msg: "Hello\u2028", v: 0, level: "info", key: "v\n", n: 1 },
      { ts: noon, caller: "kube-proxy", msg: "Bad", level: "error", err: "why" },
    ]);
  });
});

describe("levels", () => {
  test("change while running, for every part", () => {
    const { log, lines } = capture({ verbosity: 2 });
    const part = log.named("kube");
    part.debug(2, "two");
    part.debug(3, "three");
    log.setVerbosity(4);
    part.debug(4, "four");
    log.setVerbosity(0);
    part.debug(1, "one");
    expect(lines.map((line) => line.split('"')[1])).toEqual(["two", "four"]);
    expect(log.verbosity()).toBe(0);
  });

  test("vmodule matches names of parts", () => {
    const { log, lines } = capture({ vmodule: [{ filePattern: "reco*", verbosity: 5 }] });
    log.named("reconciler").debug(5, "yes");
    log.named("reconciler").debug(6, "no");
    log.named("kube").debug(1, "no");
    expect(lines.map((line) => line.split('"')[1])).toEqual(["yes"]);
  });

  test("split streams: errors to stderr, the rest to stdout", () => {
    const { log, lines } = capture({ splitStream: true });
    log.error("e");
    log.warn("w");
    expect(lines.map((line) => line[0])).toEqual(["2", "1"]);
  });

  test("the silent log says nothing and has the same shape", () => {
    expect(Object.keys(silentLog).sort()).toEqual(Object.keys(capture().log).sort());
  });
});

describe("a full pipe", () => {
  /** Takes so many bytes at each call; 0 means EAGAIN. */
  function pipe(...room: readonly number[]) {
    let taken = "";
    let call = 0;
    const write = (_fd: number, bytes: Uint8Array) => {
      const free = room[call++] ?? 1_000_000;
      if (free === 0) throw Object.assign(new Error("busy"), { code: "EAGAIN" });
      taken += new TextDecoder().decode(bytes.subarray(0, free));
      return Math.min(free, bytes.length);
    };
    return { write, taken: () => taken };
  }

  test("is tried again, and a line goes on where it stopped", () => {
    const slow = pipe(3, 0, 0, 2);
    new LineWriter(2, slow.write, () => {}).write("abcdefg");
    expect(slow.taken()).toBe("abcdefg\n");
  });

  test("loses whole lines only, and says how many", () => {
    const stuck = pipe(2, ...Array<number>(60).fill(0));
    const writer = new LineWriter(2, stuck.write, () => {});
    for (const line of ["first", "second", "third", "fourth"]) writer.write(line);
    expect(stuck.taken()).toBe("first\n(2 log lines were lost: their reader was too slow)\nfourth\n");
  });

  test("a reader that is gone is no error", () => {
    const gone = () => {
      throw Object.assign(new Error("gone"), { code: "EPIPE" });
    };
    expect(() => new LineWriter(2, gone, () => {}).write("x")).not.toThrow();
  });
});
