/**
 * Inside a guest: what ipvs mode costs with many Services: `scripts/uml node_modules/.bin/bun test/uml/bench.ts [N]`.
 * Prints one line a measurement; the guest's processes are several times slower than real ones.
 */
import { contextOf, makeInput, snapshotOf } from "../backends/ipvs/cluster.ts";
import { run } from "./host.ts";
import { IpvsProxy } from "./proxy.ts";

const count = Number(process.argv[2] ?? 1000);
const inputs = Array.from({ length: count }, (_, i) =>
  makeInput({
    name: `svc-${i}`,
    ip: `10.96.${i >> 8}.${i & 255}`,
    endpoints: [`10.244.1.${i & 255}`, `10.244.2.${i & 255}`, `10.244.3.${i & 255}`],
  }),
);
const one = makeInput({ name: "svc-7", ip: "10.96.0.7", endpoints: ["10.244.1.7", "10.244.2.7", "10.244.4.99"] });
const extra = makeInput({ name: "extra", ip: "10.97.0.1", endpoints: ["10.244.2.5"] });

run("modprobe", "-a", "br_netfilter", "ip_vs");
run("ip", "link", "set", "lo", "up");
const proxy = new IpvsProxy(contextOf());
await proxy.setup();
await measure("first sync", () => proxy.sync(snapshotOf(...inputs)));
const changed = inputs.map((input) => (input.service.name === "svc-7" ? one : input));
await measure("one endpoint replaced", () => proxy.sync(snapshotOf(...changed)));
await Bun.sleep(1000);
await measure("the old endpoint drained", () => proxy.sync(snapshotOf(...changed)));
await measure("one Service added", () => proxy.sync(snapshotOf(...changed, extra)));
await measure("one Service removed", () => proxy.sync(snapshotOf(...changed)));
await measure("nothing changed", () => proxy.sync(snapshotOf(...changed)));
await measure("look for drift", () => proxy.reconciler.inspect());
const again = new IpvsProxy(proxy.context);
await measure("first sync after a restart", () => again.sync(snapshotOf(...changed)), again);
process.exit(0);

async function measure(what: string, work: () => Promise<unknown>, of: IpvsProxy = proxy): Promise<void> {
  const before = of.steps.length;
  const start = performance.now();
  await work();
  const ms = Math.round(performance.now() - start);
  console.log(`${count} Services, ${what}: ${ms} ms, ${of.steps.length - before} processes`);
}
