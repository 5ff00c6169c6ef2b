/** Our sockets: what happens when a port is taken, and when clients are many, slow or greedy. */
import { afterEach, describe, expect, test } from "bun:test";
import { type KeepListeningOptions, keepListening, type Listener, listen } from "../../src/app/listen.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

function serve(address = "127.0.0.1", port = 0): Listener {
  const listener = listen(address, port, async (request) => {
    await request.text();
    return new Response("mine");
  });
  open.push(listener);
  return listener;
}

/** A clock that stands still, and a log that is kept. */
function stage(port: number, more: Partial<KeepListeningOptions> = {}) {
  const tasks: (() => void)[] = [];
  const lines: string[] = [];
  const told: number[] = [];
  const say = (level: string) => (message: string, fields?: object) =>
    void lines.push(`${level} ${message} ${JSON.stringify(fields)}`);
  const options: KeepListeningOptions = {
    field: "healthzBindAddress",
    address: "127.0.0.1",
    port,
    handler: () => new Response("mine"),
    hardFail: false,
    retryMs: 5_000,
    log: { error: say("E"), warn: say("W"), info: say("I"), debug: () => {} },
    schedule: (_ms, task) => {
      tasks.push(task);
      return () => void tasks.splice(tasks.indexOf(task), 1);
    },
    listening: (listener) => told.push(listener.port),
    ...more,
  };
  const start = () => {
    const kept = keepListening(options);
    open.push(kept);
    return kept;
  };
  return { start, tasks, lines, told };
}

describe("a taken port", () => {
  test("is refused even to a second server of ours (Bun would share it)", () => {
    const { port } = serve();
    expect(() => serve("127.0.0.1", port)).toThrow(
      new RegExp(`^cannot listen on 127[.]0[.]0[.]1:${port}: the port is in use by \\S+ [(]pid ${process.pid}[)]$`),
    );
  });

  test("with bindAddressHardFail ends the start, naming the field", () => {
    const { port } = serve();
    const { start, tasks } = stage(port, { hardFail: true });
    expect(start).toThrow(
      /^healthzBindAddress: cannot listen on 127\.0\.0\.1:\d+: the port is in use .*; exiting because bindAddressHardFail is true$/,
    );
    expect(tasks).toHaveLength(0);
  });

  test("without it is tried again, said aloud, and had in the end", async () => {
    const other = serve();
    const { start, tasks, lines, told } = stage(other.port);
    const kept = start();
    for (let i = 0; i < 8; i++) tasks.shift()?.();
    expect(kept.current()).toBeUndefined();
    // Failures 1, 2, 4 and 8 of nine.
    expect(lines).toHaveLength(4);
    expect(lines[0]).toStartWith(
      'E Server cannot listen, will keep trying {"field":"healthzBindAddress","reason":"cannot listen on 127.0.0.1',
    );
    other.close();
    tasks.shift()?.();
    expect(lines.at(-1)).toStartWith("I Listening at last");
    expect(told).toEqual([other.port]);
    expect(await (await fetch(`http://127.0.0.1:${other.port}/`)).text()).toBe("mine");
  });

  test("is not tried again after close", () => {
    const other = serve();
    const { start, tasks } = stage(other.port);
    start().close();
    expect(tasks).toHaveLength(0);
  });
});

test.each([
  ["192.0.2.77", "this host does not have the address"],
  ["2001:db8::77", "this host does not have the address"],
])("%s cannot be had: %s", (address, reason) => expect(() => serve(address, 0)).toThrow(reason));

test("a server of ours on :: answers IPv4 too, as Go's do", async () => {
  const { start, told } = stage(0, { address: "::" });
  start();
  expect(await (await fetch(`http://127.0.0.1:${told[0]}/`)).text()).toBe("mine");
  expect(await (await fetch(`http://[::1]:${told[0]}/`)).text()).toBe("mine");
});

test("a handler's mistake is a 500 and a line", async () => {
  const { start, told, lines } = stage(0, {
    handler: () => {
      throw new Error("oops");
    },
  });
  start();
  const answer = await fetch(`http://127.0.0.1:${told[0]}/`);
  expect([answer.status, await answer.text()]).toEqual([500, "internal error\n"]);
  expect(lines).toEqual(['E HTTP handler failed, this is a bug {"field":"healthzBindAddress","reason":"oops"}']);
});

test("knows clients that come over loopback", async () => {
  const answered = (address: string) => {
    const listener = listen(address, 0, (_, connection) => new Response(String(connection.local)), { dualStack: true });
    open.push(listener);
    return listener.port;
  };
  const [four, both] = [answered("0.0.0.0"), answered("::")];
  const ask = async (host: string, port: number) => (await fetch(`http://${host}:${port}/`)).text();
  expect([await ask("127.0.0.1", four), await ask("127.0.0.1", both), await ask("[::1]", both)]).toEqual([
    "true",
    "true",
    "true",
  ]);
});

test("IPv6 does not take the IPv4 side", async () => {
  const six = serve("::", 0);
  expect(() => serve("0.0.0.0", six.port)).not.toThrow();
  expect(await (await fetch(`http://[::1]:${six.port}/`)).text()).toBe("mine");
});

describe("rough clients", () => {
  test("500 idle and half-sent connections leave the server quick", async () => {
    const { port } = serve();
    const connect = () => Bun.connect({ hostname: "127.0.0.1", port, socket: { data: () => {}, error: () => {} } });
    const sockets = await Promise.all(Array.from({ length: 500 }, connect));
    for (const [i, socket] of sockets.entries()) if (i % 2 === 0) socket.write("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("mine");
    for (const socket of sockets) socket.end();
  });

  test("a body of 10 MB is refused before it is taken in", async () => {
    const { port } = serve();
    const announced = await raw(port, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 10485760\r\n\r\n");
    expect(announced).toStartWith("HTTP/1.1 413 ");
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("mine");
  });

  test("a body without a length is cut off", async () => {
    const { port } = serve();
    const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
    const answer = await raw(port, "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", chunk, 160);
    expect(answer).not.toContain("mine");
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("mine");
  });

  test("garbage and huge headers", async () => {
    const { port } = serve();
    expect(await raw(port, "\u0016\u0003\u0001\r\n\r\n")).not.toContain("200 OK");
    expect(await raw(port, `GET / HTTP/1.1\r\nHost: x\r\nX: ${"y".repeat(1 << 20)}\r\n\r\n`)).not.toContain("200 OK");
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe("mine");
  });
});

/** Sends `head` and then `chunk` so many times; answers what came back until the server answered or closed. */
async function raw(port: number, head: string, chunk = "", times = 0): Promise<string> {
  let text = "";
  let left = times;
  const done = Promise.withResolvers<void>();
  const send = (self: Bun.Socket): void => {
    while (left > 0 && self.write(chunk) === chunk.length) left--;
  };
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data: (_, data) => {
        text += data.toString();
        done.resolve();
      },
      drain: send,
      close: () => done.resolve(),
      error: () => done.resolve(),
    },
  });
  socket.write(head);
  send(socket);
  await done.promise;
  socket.end();
  return text;
}
