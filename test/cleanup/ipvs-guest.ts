/**
 * Runs in the user-mode Linux guest, where ip_vs is: switching to ipvs and back under load, and `--cleanup` of what
 * kube-proxy left there, beside virtual servers of others. Prints one JSON line a scenario: {scenario, …what was seen}.
 */
import { Node } from "./node.ts";
import { dump, fill, fillForeign, fillServers } from "./recorded.ts";
import { binary, Space, until } from "./space.ts";

/** The guest is slow: 1,000 connects a second would be all that it does. */
const rate = 60;
const patience = 120;

await switches();
await cleanup();
process.exit(0);

async function switches(): Promise<void> {
  const node = await Node.open("legacy", patience);
  try {
    let proxy = await node.start("iptables");
    await node.startProbing(rate);
    for (const mode of ["ipvs", "iptables"] as const) {
      await proxy.stop("SIGTERM");
      proxy = await node.start(mode);
      await Bun.sleep(500);
    }
    const { log } = proxy;
    await until(
      "what ipvs mode left is removed",
      () => log().includes("Removed what another mode left"),
      log,
      patience,
    );
    await Bun.sleep(500);
    const losses = await node.stopProbing();
    await proxy.stop("SIGTERM");
    const { space } = node;
    const saved = space.must(["iptables-save"]);
    const left = {
      servers: space.must(["ipvsadm", "-Sn"]),
      sets: space.must(["ipset", "-n", "list"]),
      device: space.run(["ip", "link", "show", "kube-ipvs0"]).code === 0,
      chains: saved.match(/^:KUBE-(IPVS-\S+|LOAD-BALANCER|NODE-PORT|SOURCE-RANGES\S+)/gm) ?? [],
      ours: saved.includes(":KUBE-SVC-"),
    };
    console.log(JSON.stringify({ scenario: "switches", losses, left }));
  } finally {
    await node.close();
  }
}

/** The same things as before, and not a byte else, after two clean-ups. */
async function cleanup(): Promise<void> {
  const space = await Space.open("legacy");
  const all = () => `${dump(space)}\n${space.must(["ipvsadm", "-Sn"])}`;
  try {
    fillForeign(space, ["legacy"], false);
    const foreign = "-A -t 192.0.2.99:9999 -s rr\n-a -t 192.0.2.99:9999 -r 192.0.2.98:80 -m -w 1\n";
    space.must(["ipvsadm", "-R"], foreign);
    const before = all();
    fill(space, "fuzz-0001", "ipvs", "legacy");
    const servers = fillServers(space, "fuzz-0001");
    const filled = all() !== before;
    const first = space.run([binary, "--cleanup"]);
    const same = all() === before;
    const second = space.run([binary, "--cleanup"]);
    const seen = { servers, filled, first, same, second, again: all() === before };
    console.log(JSON.stringify({ scenario: "cleanup", ...seen, ...(same ? {} : { before, after: all() }) }));
  } finally {
    await space.close();
  }
}
