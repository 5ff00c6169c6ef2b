/** A story about route_localnet: packets from outside to 127.0.0.0/8 are dropped although the kernel would take them. */
import type { Attempt } from "../../lab/probe.ts";
import { hostPort, nodeAddress, otherNodeAddress, outsideAddress, type Space } from "../../lab/topology.ts";
import type { Stage, Story } from "../stage.ts";

const martian: Story = {
  name: "outside cannot reach 127.0.0.1 of the node",
  modes: ["iptables-nft", "iptables-legacy"],
  families: ["IPv4"],
  async run(stage) {
    const { lab } = stage.cluster;
    const localnet = lab.run("node1", ["cat", "/proc/sys/net/ipv4/conf/all/route_localnet"]).trim();
    if (localnet !== "1") {
      stage.fault("IPv4", `route_localnet is ${localnet}: node ports on 127.0.0.1 cannot work`);
    }
    // The outside host forgets that 127.0.0.0/8 is its own and takes answers from there.
    lab.run("outside", ["ip", "addr", "del", "127.0.0.1/8", "dev", "lo"]);
    lab.sysctls("outside", { "net/ipv4/conf/all/route_localnet": "1" });
    lab.sysctls("node2", { "net/ipv4/conf/all/route_localnet": "1" });
    try {
      // node-2 has no proxy: what comes through there shows that the packets are good.
      const control = await knock(stage, otherNodeAddress.IPv4);
      if (control !== "answered") {
        stage.fault("IPv4", `without a proxy 127.0.0.1 should be reachable in this lab: ${control}`);
      }
      const guarded = await knock(stage, nodeAddress.IPv4);
      if (guarded !== "dropped") {
        stage.fault("IPv4", `127.0.0.1:${hostPort} of node-1 from outside: ${guarded}`);
      }
    } finally {
      lab.run("outside", ["ip", "route", "del", "127.0.0.0/8"]);
      lab.run("outside", ["ip", "addr", "add", "127.0.0.1/8", "dev", "lo"]);
    }
  },
};

async function knock(stage: Stage, via: string): Promise<string> {
  const outside: Space = "outside";
  stage.cluster.lab.run(outside, ["ip", "route", "replace", "127.0.0.0/8", "via", via]);
  const attempt: Attempt = {
    namespace: stage.cluster.lab.space(outside),
    kind: "tcp",
    source: outsideAddress.IPv4,
    ip: "127.0.0.1",
    port: hostPort,
    patience: 1300,
  };
  const [outcome] = await stage.probe([attempt]);
  return outcome?.kind ?? "nothing";
}

export const loopback: readonly Story[] = [martian];
