/** One file, replaced in each way that administrators and kubelets replace files. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchConfig } from "../../src/app/config-watch.ts";

let folder = "";
let stop = () => {};
let heard: (string | undefined)[] = [];
let wake = () => {};

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "kp-watch-"));
  heard = [];
});
afterEach(() => {
  stop();
  chmodSync(folder, 0o700);
  rmSync(folder, { recursive: true });
});

function start(path: string, text: string | undefined, pollMs = 600_000): void {
  stop = watchConfig({
    path,
    text,
    quietMs: 30,
    pollMs,
    changed: (now) => {
      heard.push(now);
      wake();
    },
    failed: (problem) => {
      heard.push(`problem: ${problem}`);
      wake();
    },
  });
}

/** Waits for the next report after `act`. */
async function after(act: () => void): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<void>();
  wake = resolve;
  act();
  await promise;
  return heard.at(-1);
}

function file(text: string): string {
  const path = join(folder, "config.conf");
  writeFileSync(path, text);
  return path;
}

test("rewritten in place, more than once", async () => {
  const path = file("one");
  start(path, "one");
  expect(await after(() => writeFileSync(path, "two"))).toBe("two");
  expect(await after(() => writeFileSync(path, "three"))).toBe("three");
  expect(heard).toEqual(["two", "three"]);
});

test("renamed over, and rewritten afterwards", async () => {
  const path = file("one");
  start(path, "one");
  const rename = (text: string) => {
    writeFileSync(`${path}.new`, text);
    renameSync(`${path}.new`, path);
  };
  expect(await after(() => rename("two"))).toBe("two");
  expect(await after(() => rename("three"))).toBe("three");
  expect(await after(() => writeFileSync(path, "four"))).toBe("four");
});

test("a ConfigMap's ..data symlink swapped, twice", async () => {
  const put = (version: string, text: string) => {
    mkdirSync(join(folder, version));
    writeFileSync(join(folder, version, "config.conf"), text);
    symlinkSync(version, join(folder, "..data_tmp"));
    renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
  };
  put("..v1", "one");
  const path = join(folder, "config.conf");
  symlinkSync("..data/config.conf", path);
  start(path, "one");
  expect(
    await after(() => {
      put("..v2", "two");
      rmSync(join(folder, "..v1"), { recursive: true });
    }),
  ).toBe("two");
  expect(await after(() => put("..v3", "three"))).toBe("three");
});

test("a link to a file elsewhere that is rewritten", async () => {
  mkdirSync(join(folder, "real"));
  mkdirSync(join(folder, "etc"));
  writeFileSync(join(folder, "real", "x"), "one");
  symlinkSync(join(folder, "real", "x"), join(folder, "etc", "config.conf"));
  start(join(folder, "etc", "config.conf"), "one");
  expect(await after(() => writeFileSync(join(folder, "real", "x"), "two"))).toBe("two");
});

test("deleted and made again", async () => {
  const path = file("one");
  start(path, "one");
  expect(await after(() => unlinkSync(path))).toBeUndefined();
  expect(await after(() => writeFileSync(path, "one"))).toBe("one");
  expect(heard).toEqual([undefined, "one"]);
});

test("the folder made anew is found by the poll, and watched again", async () => {
  const inner = join(folder, "inner");
  mkdirSync(inner);
  const path = join(inner, "config.conf");
  writeFileSync(path, "one");
  start(path, "one", 40);
  expect(await after(() => rmSync(inner, { recursive: true }))).toBeUndefined();
  expect(
    await after(() => {
      mkdirSync(inner);
      writeFileSync(path, "two");
    }),
  ).toBe("two");
});

test("changed between reading and watching", async () => {
  const path = file("two");
  expect(await after(() => start(path, "one"))).toBe("two");
});

test("a burst is one report, the same text and other files none", async () => {
  const path = file("one");
  start(path, "one");
  const last = await after(() => {
    for (let i = 0; i < 20; i++) {
      writeFileSync(path, "");
      writeFileSync(path, `text ${i}`);
      writeFileSync(join(folder, "other"), String(i));
    }
  });
  expect(last).toBe("text 19");
  writeFileSync(path, "text 19");
  writeFileSync(join(folder, "other"), "again");
  expect(await after(() => setTimeout(() => writeFileSync(path, "end"), 100))).toBe("end");
  expect(heard).toEqual(["text 19", "end"]);
});

test("what cannot be read is told once", async () => {
  const path = file("one");
  start(path, "one", 40);
  const swap = () => {
    unlinkSync(path);
    mkdirSync(path);
  };
  expect(await after(swap)).toMatch(/^problem: cannot read .*config\.conf: EISDIR/);
  await Bun.sleep(150);
  expect(heard.filter((one) => one?.startsWith("problem"))).toHaveLength(1);
});
