import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { type CleanUp, ConntrackCleaner } from "../../src/host/conntrack.ts";
import { context, type Dns, plan } from "../conntrack/world.ts";
import { recordingLog } from "./log.ts";
import { scripts, temporaryDir } from "./wrappers.ts";

const ctx = context("IPv4", "iptables");
const entry = (dst: string, replySrc: string, sport = 4000) =>
  `udp      17 29 src=10.1.0.2 dst=${dst} sport=${sport} dport=53 src=${replySrc} dst=10.1.0.2 sport=53 dport=${sport} mark=0 use=1`;
const vip = "10.96.0.10";
const dns: Dns = { endpoints: ["10.1.0.3"] };

/** A conntrack tool that lists the file `table` and appends batches to the file `deleted`; `extra` runs first. */
function tool(table: readonly string[], extra = "") {
  const dir = temporaryDir();
  writeFileSync(`${dir}/table`, table.map((line) => `${line}\n`).join(""));
  const body = `${extra.replaceAll("DIR", dir)}
case "$1" in
-L) echo list >>${dir}/calls; cat ${dir}/table ;;
-R) cat >>${dir}/deleted; echo gone ;;
-D) echo "$@" >>${dir}/deleted; echo gone ;;
esac`;
  const toolDir = scripts({ conntrack: body });
  const read = (name: string) =>
    existsSync(`${dir}/${name}`) ? readFileSync(`${dir}/${name}`, "utf8").trim().split("\n") : [];
  return { dir, toolDir, deleted: () => read("deleted"), listings: () => read("calls").length };
}

function cleaner(toolDir: string, gapMs = 0) {
  const log = recordingLog();
  const results: CleanUp[] = [];
  const made = new ConntrackCleaner({
    family: "IPv4",
    log,
    toolDirs: [toolDir],
    retryMs: 5,
    gapMs,
    onCleanUp: (result) => results.push(result),
  });
  return { made, log, results };
}

const line = (dst: string, replySrc: string) =>
  `-D -f ipv4 -p udp -d ${dst} --dport 53 -r ${replySrc} --reply-port-src 53 -w 0`;

describe("pending until it succeeded", () => {
  test.each([
    [
      "the listing fails twice",
      '[ "$1" = -L ] && ! [ -e DIR/b ] && { [ -e DIR/a ] && touch DIR/b; touch DIR/a; echo broken >&2; exit 1; }',
    ],
    ["the listing is killed", '[ "$1" = -L ] && ! [ -e DIR/a ] && { touch DIR/a; kill -SEGV $$; }'],
    [
      "the deletion fails more often than a batch is tried",
      '[ "$1" = -R ] && ! [ -e DIR/4 ] && { n=$(ls DIR | grep -c "^[0-9]"); touch DIR/$((n+1)); echo broken >&2; exit 1; }',
    ],
  ])("%s", async (_, extra) => {
    const fake = tool([entry(vip, "10.1.0.9"), entry(vip, "10.1.0.3")], extra);
    const { made, log, results } = cleaner(fake.toolDir);
    made.after(plan(ctx, [dns]), ctx);
    await made.idle();
    expect(fake.deleted()).toEqual([line(vip, "10.1.0.9")]);
    expect(results).toHaveLength(1);
    expect(results[0]).toMatchObject({ deleted: 1, kept: 1 });
    // Said once, however often it failed.
    expect(log.lines.filter((text) => text.startsWith("warn"))).toHaveLength(1);
    expect(log.lines[0]).toStartWith(
      "warn Stale UDP flows could not be removed, trying again family=IPv4 reason=conntrack (",
    );
  });

  test("a deleted Service is remembered over failures and later plans", async () => {
    const fake = tool([entry(vip, "10.1.0.3")], '[ "$1" = -L ] && [ -e DIR/broken ] && exit 1');
    const { made } = cleaner(fake.toolDir);
    const first = plan(ctx, [dns]);
    made.after(first, ctx);
    await made.idle();
    expect(fake.deleted()).toEqual([]);
    writeFileSync(`${fake.dir}/broken`, "");
    const second = plan(ctx, [], first);
    made.after(second, ctx);
    await Bun.sleep(30);
    const third = plan(ctx, [{ name: "other", ips: ["10.96.0.11"], endpoints: [] }], second);
    made.after(third, ctx);
    await Bun.$`rm ${fake.dir}/broken`;
    await made.idle();
    expect(fake.deleted()).toEqual(["-D -f ipv4 -p udp -d 10.96.0.10 --dport 53 -w 0"]);
  });

  test("an entry that vanished while the batch ran is no failure", async () => {
    const extra = `[ "$1" = -R ] && ! [ -e DIR/a ] && { touch DIR/a; echo "conntrack v1.4.7 (conntrack-tools): Operation failed: such conntrack doesn't exist" >&2; exit 1; }`;
    const fake = tool([entry(vip, "10.1.0.9")], extra);
    const { made, log, results } = cleaner(fake.toolDir);
    made.after(plan(ctx, [dns]), ctx);
    await made.idle();
    expect(results).toHaveLength(1);
    expect(log.lines.filter((text) => text.startsWith("warn"))).toEqual([]);
  });
});

test("an old tool without -R gets one process a class", async () => {
  const extra = `[ "$1" = -R ] && { echo "conntrack v1.4.6 (conntrack-tools): unknown option \\\`-R'" >&2; exit 2; }
case "$*" in *10.1.0.8*) echo "conntrack v1.4.6 (conntrack-tools): 0 flow entries have been deleted." >&2; exit 1 ;; esac`;
  const fake = tool([entry(vip, "10.1.0.9"), entry(vip, "10.1.0.8")], extra);
  const { made, results } = cleaner(fake.toolDir);
  made.after(plan(ctx, [dns]), ctx);
  await made.idle();
  expect(fake.deleted()).toEqual([line(vip, "10.1.0.9")]);
  expect(results[0]?.deleted).toBe(1);
});

test("no conntrack tool: one warning with the package, then silence; installed later it is used", async () => {
  const dir = temporaryDir();
  const { made, log, results } = cleaner(dir);
  let last = plan(ctx, [dns]);
  for (const endpoints of [["10.1.0.3"], [], ["10.1.0.3"]]) {
    last = plan(ctx, [{ endpoints }], last);
    made.after(last, ctx);
    await made.idle();
  }
  expect(log.lines).toEqual([
    'warn No conntrack tool: stale UDP flows will not be removed family=IPv4 fix=install the package "conntrack"',
  ]);
  const fake = tool([entry(vip, "10.1.0.3")]);
  await Bun.$`cp ${fake.toolDir}/conntrack ${dir}/conntrack`;
  made.after(plan(ctx, [{ endpoints: [] }], last), ctx);
  await made.idle();
  expect(results).toHaveLength(1);
});

test("what is healthy again by the time of its deletion stays", async () => {
  const stale = Array.from({ length: 45 }, (_, i) => entry(vip, `10.1.1.${i}`, 4000 + i));
  const fake = tool([...stale], '[ "$1" = -R ] && { touch DIR/began; while ! [ -e DIR/go ]; do sleep 0.01; done; }');
  const { made } = cleaner(fake.toolDir);
  const first = plan(ctx, [dns]);
  made.after(first, ctx);
  while (!existsSync(`${fake.dir}/began`)) await Bun.sleep(5);
  // The first 20 are being deleted; the others become endpoints now.
  made.after(plan(ctx, [{ endpoints: stale.slice(20).map((_, i) => `10.1.1.${i + 20}`) }], first), ctx);
  writeFileSync(`${fake.dir}/go`, "");
  await made.idle();
  expect(new Set(fake.deleted())).toEqual(new Set(stale.slice(0, 20).map((_, i) => line(vip, `10.1.1.${i}`))));
});

test("a burst of changes is few listings; no change is none; force is one", async () => {
  const fake = tool([entry(vip, "10.1.0.3")]);
  const { made } = cleaner(fake.toolDir, 20);
  let last = plan(ctx, [dns]);
  made.after(last, ctx);
  await made.idle();
  expect(fake.listings()).toBe(1);
  made.after(last, ctx);
  await made.idle();
  expect(fake.listings()).toBe(1);
  made.after(last, ctx, true);
  await made.idle();
  expect(fake.listings()).toBe(2);
  for (let i = 0; i < 200; i++) {
    last = plan(ctx, [{ endpoints: ["10.1.0.3", `10.1.2.${i}`] }], last);
    made.after(last, ctx);
  }
  await made.idle();
  expect(fake.listings()).toBeLessThanOrEqual(4);
});

test("200,000 entries are read as a stream: memory stays flat, and nothing waits for it", async () => {
  const dir = temporaryDir();
  const body = `[ "$1" = -L ] && { seq 1 200000 | sed 's/.*/udp      17 29 src=10.1.0.2 dst=10.96.0.10 sport=&  dport=53 src=10.1.0.3 dst=10.1.0.2 sport=53 dport=4000 mark=0 use=1/'; touch ${dir}/done; }`;
  const { made, results } = cleaner(scripts({ conntrack: body }));
  Bun.gc(true);
  const before = process.memoryUsage().rss;
  made.after(plan(ctx, [dns]), ctx);
  let peak = 0;
  let turns = 0;
  const idle = made.idle();
  while (!existsSync(`${dir}/done`)) {
    await Bun.sleep(5);
    turns++;
    peak = Math.max(peak, process.memoryUsage().rss);
  }
  await idle;
  expect(results).toEqual([expect.objectContaining({ deleted: 0, kept: 200_000 })]);
  // How often depends on the machine: that others got a turn at all is the point.
  expect(turns).toBeGreaterThan(0);
  // The listing is 25 MB of text and 200,000 flows; kept whole they would be far more than this.
  expect((peak - before) / 2 ** 20).toBeLessThan(60);
});

test("closing ends what is pending, also while the tool runs", async () => {
  const failing = tool([entry(vip, "10.1.0.9")], "exit 1");
  const waiting = cleaner(failing.toolDir).made;
  waiting.after(plan(ctx, [dns]), ctx);
  await Bun.sleep(20);
  waiting.close();
  await waiting.idle();
  expect(failing.deleted()).toEqual([]);

  const slow = tool(
    [entry(vip, "10.1.0.9")],
    '[ "$1" = -L ] && { touch DIR/began; while ! [ -e DIR/go ]; do sleep 0.01; done; exit 1; }',
  );
  const running = cleaner(slow.toolDir);
  running.made.after(plan(ctx, [dns]), ctx);
  while (!existsSync(`${slow.dir}/began`)) await Bun.sleep(5);
  running.made.close();
  writeFileSync(`${slow.dir}/go`, "");
  await running.made.idle();
  expect(running.log.lines).toEqual([]);
});
