import { expect, test } from "bun:test";
import { ChildProcesses } from "../../src/app/child-processes.ts";
import type { Step } from "../../src/model/step.ts";

const exec = (input?: readonly string[]): Step => ({
  kind: "exec",
  tool: "nft",
  args: [],
  about: "",
  ...(input === undefined ? {} : { input }),
});

test("in the machine's process namespace only our own children count", () => {
  const children = new ChildProcesses({ sameNamespace: true });
  children.add(7149);
  expect(children.includes(7149, "nft")).toBe(true);
  expect(children.includes(7150, "nft")).toBe(false);
});

test("in a namespace of our own a tool counts while we write, and a moment after", async () => {
  let now = 0;
  const children = new ChildProcesses({ sameNamespace: false, now: () => now });
  const work = Promise.withResolvers<void>();
  expect(children.includes(1, "nft")).toBe(false);
  const done = children.during([exec(["add table ip x\n"])], () => work.promise);
  expect(children.includes(1, "nft")).toBe(true);
  expect(children.includes(1, "iptables-nft-re")).toBe(true);
  expect(children.includes(1, "firewalld")).toBe(false);
  work.resolve();
  await done;
  now += 499;
  expect(children.includes(1, "nft")).toBe(true);
  now += 1;
  expect(children.includes(1, "nft")).toBe(false);
});

test("reading is not writing, and a failed write ends too", async () => {
  let now = 0;
  const children = new ChildProcesses({ sameNamespace: false, now: () => now });
  await children.during([exec()], async () => expect(children.includes(1, "nft")).toBe(false));
  await children.during([exec(["x"])], () => Promise.reject(new Error("no"))).catch(() => {});
  now += 1000;
  expect(children.includes(1, "nft")).toBe(false);
});
