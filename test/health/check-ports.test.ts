/** Health check node ports over HTTP on loopback: opened, answered, and closed with their Services. */
import { afterEach, expect, test } from "bun:test";
import { listen } from "../../src/app/listen.ts";
import { type CheckPorts, type CheckTarget, checkAddresses, createCheckPorts } from "../../src/health/check-ports.ts";
import { IPv4, IPv6 } from "../../src/model/family.ts";
import type { HttpHandler } from "../../src/model/http-answer.ts";

const started: CheckPorts[] = [];
const complaints: string[] = [];
let healthy = true;

function start(): CheckPorts {
  const log = {
    error: (message: string, fields?: object) => void complaints.push(`${message} ${JSON.stringify(fields)}`),
    warn: () => {},
    info: () => {},
    debug: () => {},
  };
  const ports = createCheckPorts({ open: listen, healthy: () => healthy, log });
  started.push(ports);
  return ports;
}

afterEach(() => {
  for (const ports of started.splice(0)) ports.close();
  complaints.length = 0;
  healthy = true;
});

/** A port that was free a moment ago. */
function freePort(): number {
  const probe = listen("127.0.0.1", 0, () => new Response());
  probe.close();
  return probe.port;
}

function targets(...list: readonly (readonly [name: string, port: number, localEndpoints: number])[]) {
  return new Map(
    list.map(([name, port, localEndpoints]): [string, CheckTarget] => [
      `ns1/${name}`,
      { namespace: "ns1", name, port, localEndpoints },
    ]),
  );
}

const ask = (port: number, host = "127.0.0.1", path = "/") => fetch(`http://${host}:${port}${path}`);
const serviceAt = async (port: number) => /"name": "(\w+)"/.exec(await (await ask(port)).text())?.[1];
const refused = async (port: number, host = "127.0.0.1") => {
  try {
    return (await ask(port, host)).status;
  } catch {
    return "refused";
  }
};

test("answers as recorded (cases/lb-local, lb-local-none-here)", async () => {
  const [a, b] = [freePort(), freePort()];
  start().update(targets(["lbl", a, 2], ["lbz", b, 0]), ["127.0.0.1"]);
  const some = await ask(a);
  expect(some.status).toBe(200);
  expect(some.headers.get("content-type")).toBe("application/json");
  expect(some.headers.get("x-load-balancing-endpoint-weight")).toBe("2");
  expect(await some.json()).toEqual({
    localEndpoints: 2,
    service: { name: "lbl", namespace: "ns1" },
    serviceProxyHealthy: true,
  });
  const none = await ask(b, "127.0.0.1", "/healthz");
  expect([none.status, none.headers.get("x-load-balancing-endpoint-weight")]).toEqual([503, "0"]);
  expect(await none.json()).toMatchObject({ localEndpoints: 0, serviceProxyHealthy: true });
});

test("follows endpoint counts and the proxy's own health without a new listener", async () => {
  const port = freePort();
  const ports = start();
  ports.update(targets(["lbl", port, 1]), ["127.0.0.1"]);
  ports.update(targets(["lbl", port, 3]), ["127.0.0.1"]);
  expect((await ask(port)).headers.get("x-load-balancing-endpoint-weight")).toBe("3");
  healthy = false;
  const answer = await ask(port);
  expect([answer.status, await answer.json()]).toMatchObject([503, { localEndpoints: 3, serviceProxyHealthy: false }]);
  ports.update(targets(["lbl", port, 0]), ["127.0.0.1"]);
  healthy = true;
  expect((await ask(port)).status).toBe(503);
});

test("a deleted Service: a kept-alive connection is cut, the port closed (kubernetes#141272)", async () => {
  const port = freePort();
  const ports = start();
  ports.update(targets(["lbl", port, 1]), ["127.0.0.1"]);
  const answers: string[] = [];
  const first = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const socket = await Bun.connect({
    hostname: "127.0.0.1",
    port,
    socket: {
      data: (_, data) => {
        answers.push(data.toString().split("\r\n")[0] ?? "");
        first.resolve();
      },
      close: () => closed.resolve(),
      error: () => closed.resolve(),
    },
  });
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await first.promise;
  ports.update(new Map(), ["127.0.0.1"]);
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await closed.promise;
  expect(answers).toEqual(["HTTP/1.1 200 OK"]);
  expect(await refused(port)).toBe("refused");
  expect(ports.open()).toEqual([]);
});

test("a request already accepted when its Service goes is answered 503", async () => {
  const handlers: HttpHandler[] = [];
  const ports = createCheckPorts({
    open: (_address, _port, handler) => {
      handlers.push(handler);
      return { close: () => {} };
    },
    healthy: () => true,
    log: { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} },
  });
  ports.update(targets(["lbl", 32000, 1]), ["127.0.0.1"]);
  ports.update(new Map(), ["127.0.0.1"]);
  const answer = await handlers[0]?.(new Request("http://x/"), { local: true, extend: () => {} });
  expect([answer?.status, await answer?.json()]).toEqual([
    503,
    { service: { namespace: "ns1", name: "lbl" }, localEndpoints: 0, serviceProxyHealthy: true },
  ]);
});

test("only on the addresses given, and moves with them", async () => {
  const port = freePort();
  const ports = start();
  ports.update(targets(["lbl", port, 1]), ["127.0.0.2"]);
  expect([await refused(port), await refused(port, "127.0.0.2")]).toEqual(["refused", 200]);
  ports.update(targets(["lbl", port, 1]), ["127.0.0.1", "127.0.0.3"]);
  expect([await refused(port, "127.0.0.2"), await refused(port), await refused(port, "127.0.0.3")]).toEqual([
    "refused",
    200,
    200,
  ]);
});

test("both families' listeners share a port", async () => {
  const port = freePort();
  const [four, six] = [start(), start()];
  four.update(targets(["lbl", port, 1]), ["0.0.0.0"]);
  six.update(targets(["lbl", port, 2]), ["::"]);
  expect(complaints).toEqual([]);
  expect((await ask(port)).headers.get("x-load-balancing-endpoint-weight")).toBe("1");
  expect((await ask(port, "[::1]")).headers.get("x-load-balancing-endpoint-weight")).toBe("2");
});

test("a port that moves to another Service and a changed port", async () => {
  const [a, b] = [freePort(), freePort()];
  const ports = start();
  ports.update(targets(["one", a, 1]), ["127.0.0.1"]);
  ports.update(targets(["two", a, 4], ["one", b, 1]), ["127.0.0.1"]);
  expect(await serviceAt(a)).toBe("two");
  expect(await serviceAt(b)).toBe("one");
  expect(complaints).toEqual([]);
});

test("a taken port is complained about once and opened when it is free", async () => {
  const port = freePort();
  const other = listen("127.0.0.1", port, () => new Response("other"));
  const ports = start();
  for (let i = 0; i < 3; i++) ports.update(targets(["lbl", port, 1], ["ok", freePort(), 1]), ["127.0.0.1"]);
  expect(complaints).toHaveLength(1);
  expect(complaints[0]).toContain('"service":"ns1/lbl"');
  expect(complaints[0]).toContain(`(pid ${process.pid})`);
  expect(ports.open().map((one) => one.service)).toEqual(["ns1/ok"]);
  other.close();
  ports.update(targets(["lbl", port, 1]), ["127.0.0.1"]);
  expect(await serviceAt(port)).toBe("lbl");
});

test("two hundred Services open and close", async () => {
  const ports = start();
  const list = Array.from({ length: 200 }, (_, i): readonly [string, number, number] => [`s${i}`, 0, 1]);
  const handlersPorts = createCheckPorts({
    open: (address, _port, handler) => listen(address, 0, handler),
    healthy: () => true,
    log: { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} },
  });
  started.push(handlersPorts);
  handlersPorts.update(targets(...list), ["127.0.0.1"]);
  expect(handlersPorts.open()).toHaveLength(200);
  handlersPorts.update(new Map(), ["127.0.0.1"]);
  expect(handlersPorts.open()).toHaveLength(0);
  expect(ports.open()).toHaveLength(0);
});

test("where they listen follows nodePortAddresses", () => {
  expect(checkAddresses(IPv4, { any: true, addresses: ["192.0.2.1"], loopback: true })).toEqual(["0.0.0.0"]);
  expect(checkAddresses(IPv6, { any: true, addresses: [], loopback: true })).toEqual(["::"]);
  expect(checkAddresses(IPv4, { any: false, addresses: ["192.0.2.1"], loopback: false })).toEqual(["192.0.2.1"]);
  expect(checkAddresses(IPv6, { any: false, addresses: [], loopback: true })).toEqual(["::1"]);
});
