/** Naming the process that has a port. */
import { expect, test } from "bun:test";
import { listeningInodes, portHolder } from "../../src/app/port-holder.ts";

test("the socket table is read: listening sockets of the port only", () => {
  const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2809 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1234 1 0000000000000000 100 0 0 10 0
   1: 0100007F:2809 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 5678 1 0000000000000000 20 4 30 10 -1
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9012 1 0000000000000000 100 0 0 10 0
`;
  expect(listeningInodes(table, 10249)).toEqual(["1234"]);
  expect(listeningInodes(table, 22)).toEqual(["9012"]);
  expect(listeningInodes("", 22)).toEqual([]);
});

test("a child that listens is found by name", async () => {
  const program =
    "require('net').createServer().listen(0, '127.0.0.1', function () { console.log(this.address().port) })";
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
  try {
    const reader = child.stdout.getReader();
    const port = Number(new TextDecoder().decode((await reader.read()).value));
    expect(portHolder(port)).toMatch(new RegExp(`^bun\\S* \\(pid ${child.pid}\\)$`));
    expect(portHolder(port, "/nonexistent")).toBeUndefined();
  } finally {
    child.kill();
    await child.exited;
  }
});

test("a free port has no holder", () => expect(portHolder(1)).toBeUndefined());
