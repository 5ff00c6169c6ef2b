/** Stories about changes while connections run: what must survive, what must move. */
import type { FamilyName } from "../../../src/model/family.ts";
import type { Flow } from "../../lab/probe.ts";
import type { Place, Pod } from "../../lab/topology.ts";
import type { Placed } from "../objects.ts";
import type { Door } from "../row.ts";
import type { Stage, Story } from "../stage.ts";

type Client = readonly [Place, Placed, Door];

/** Keeps connecting from all clients until stopped; tells how many connections failed to be answered. */
function hammer(stage: Stage, clients: readonly Client[]): { stop(): Promise<void> } {
  let going = true;
  const work = (async () => {
    while (going) {
      for (const family of stage.families) {
        const attempts = clients.map(([from, service, door]) => stage.attempt(from, service, door, family));
        const outcomes = await stage.probe(attempts);
        for (const [i, outcome] of outcomes.entries()) {
          if (outcome.kind !== "answered") {
            const [from = "", service, door = ""] = clients[i] ?? [];
            stage.fault(family, `${from} → ${service?.spec.name} ${door}: ${stage.who(outcome, family)}`);
          }
        }
      }
      await stage.wait(15);
    }
  })();
  return {
    async stop() {
      going = false;
      await work;
    },
  };
}

const draining = { ready: false, serving: true, terminating: true } as const;

const rolling: Story = {
  name: "a rolling update fails no connection",
  async run(stage) {
    const [web, local] = await stage.create(
      { name: "web", type: "NodePort", endpoints: ["a", "c"] },
      { name: "local", type: "LoadBalancer", externalLocal: true, endpoints: ["a"] },
    );
    if (web === undefined || local === undefined) {
      return;
    }
    const hammered = hammer(stage, [
      ["pod-b", web, "cluster IP"],
      ["outside", web, "node port"],
      ["node", web, "cluster IP"],
      ["outside", local, "load balancer"],
      ["outside", local, "node port"],
    ]);
    await stage.setEndpoints(web, ["a", "c", "m1"]);
    await stage.setEndpoints(web, [{ pod: "a", ...draining }, "c", "m1"]);
    await stage.setEndpoints(local, [
      { pod: "a", ...draining },
      { pod: "m1", ready: false },
    ]);
    await stage.setEndpoints(local, [{ pod: "a", ...draining }, "m1"]);
    await stage.setEndpoints(web, ["c", "m1", "m2"]);
    await stage.setEndpoints(web, [{ pod: "c", ...draining }, "m1", "m2"]);
    await stage.setEndpoints(local, ["m1"]);
    await stage.setEndpoints(web, ["m1", "m2"]);
    await hammered.stop();
    await expectOnly(stage, web, ["m1", "m2"]);
    await expectOnly(stage, local, ["m1"]);
  },
};

/** Thirty new connections each reach these pods and no other. */
async function expectOnly(stage: Stage, service: Placed, pods: readonly Pod[]): Promise<void> {
  for (const family of stage.families) {
    const outcomes = await stage.probe(
      Array.from({ length: 30 }, () => stage.attempt("outside", service, "node port", family)),
    );
    const seen = [...new Set(outcomes.map((outcome) => stage.who(outcome, family)))].sort();
    if (seen.join() !== [...pods].sort().join()) {
      stage.fault(family, `afterwards ${service.spec.name} is answered by ${seen.join(", ")}, not ${pods.join(", ")}`);
    }
  }
}

interface Watched {
  readonly family: FamilyName;
  readonly label: string;
  readonly flow: Flow;
}

async function openFlows(stage: Stage, clients: readonly Client[]): Promise<Watched[]> {
  const watched: Watched[] = [];
  for (const family of stage.families) {
    for (const [from, service, door] of clients) {
      const flow = await stage.open(stage.attempt(from, service, door, family));
      watched.push({ family, label: `${from} → ${door}`, flow });
    }
  }
  return watched;
}

async function expectAlive(stage: Stage, watched: readonly Watched[], pod: Pod, when: string): Promise<void> {
  for (const { family, label, flow } of watched) {
    const who = stage.who(await stage.ask(flow), family);
    if (who !== pod) {
      stage.fault(family, `open connection ${label} ${when}: ${who}, not ${pod}`);
    }
  }
}

const established: Story = {
  name: "established TCP survives changes",
  async run(stage) {
    const [web] = await stage.create({ name: "web", type: "LoadBalancer", external: true, endpoints: ["b"] });
    if (web === undefined) {
      return;
    }
    const flows = await openFlows(stage, [
      ["pod-a", web, "cluster IP"],
      ["node", web, "cluster IP"],
      ["outside", web, "node port"],
      ["outside", web, "load balancer"],
      ["pod-a", web, "external IP"],
    ]);
    await expectAlive(stage, flows, "b", "at first");
    await stage.setEndpoints(web, ["b", "c"]);
    await expectAlive(stage, flows, "b", "after a second endpoint came");
    await stage.setEndpoints(web, [{ pod: "b", ...draining }, "c"]);
    await expectAlive(stage, flows, "b", "after its pod began to terminate");
    await expectOnly(stage, web, ["c"]);
    await stage.setEndpoints(web, ["c"]);
    await expectAlive(stage, flows, "b", "after its endpoint went");
    await expectOnly(stage, web, ["c"]);
    // In ipvs mode kube-proxy drops by range whatever the connection's state.
    if (stage.mode !== "ipvs") {
      await stage.change(web, { ranges: ["nobody"] });
      await expectAlive(stage, flows, "b", "after source ranges came");
    }
    await stage.change(web, { externalLocal: true });
    await expectAlive(stage, flows, "b", "after externalTrafficPolicy became Local");
    await stage.change(web, {});
    await stage.cluster.stopProxy();
    await stage.startProxy(false);
    await expectAlive(stage, flows, "b", "after the proxy was restarted");
    if (stage.mode !== "ipvs") {
      await stage.remove(web);
      await expectAlive(stage, flows, "b", "after the Service was deleted");
    }
    for (const { flow } of flows) {
      flow.close();
    }
  },
};

const restart: Story = {
  name: "a restart of the proxy fails no connection",
  async run(stage) {
    const [web] = await stage.create({ name: "web", type: "NodePort", endpoints: ["a", "c", "m1"] });
    if (web === undefined) {
      return;
    }
    const hammered = hammer(stage, [
      ["pod-b", web, "cluster IP"],
      ["outside", web, "node port"],
      ["node", web, "cluster IP"],
    ]);
    await stage.cluster.stopProxy();
    await stage.wait(100);
    await stage.startProxy(false);
    await hammered.stop();
  },
};

const layouts: Story = {
  name: "another nftables layout at a restart, and back, fails no connection",
  modes: ["nftables"],
  async run(stage) {
    const made = await stage.create(
      { name: "web", type: "NodePort", endpoints: ["a", "c", "m1"] },
      { name: "local", type: "LoadBalancer", externalLocal: true, endpoints: ["a", "m1"] },
      { name: "sticky", affinitySeconds: 600, endpoints: ["a", "c"] },
    );
    const [web, local, sticky] = made;
    if (web === undefined || local === undefined || sticky === undefined) {
      return;
    }
    const hammered = hammer(stage, [
      ["pod-b", web, "cluster IP"],
      ["outside", web, "node port"],
      ["node", web, "cluster IP"],
      ["outside", local, "load balancer"],
      ["pod-b", local, "load balancer"],
      ["outside", local, "node port"],
      ["pod-b", sticky, "cluster IP"],
    ]);
    for (const otherLayout of [true, false]) {
      await stage.cluster.stopProxy();
      await stage.startProxy(otherLayout);
      await stage.wait(500);
    }
    await hammered.stop();
  },
};

/** Old UDP flows are removed soon after the rules, not with them: so long they have. */
const moveWithinMs = 15_000;

/** Asks until the answer is a wanted one; gives the last. */
async function askUntil(
  stage: Stage,
  flow: Flow,
  family: FamilyName,
  wanted: (who: string) => boolean,
): Promise<string> {
  const end = performance.now() + moveWithinMs;
  let who = stage.who(await stage.ask(flow, 400), family);
  while (!wanted(who) && performance.now() < end) {
    await stage.wait(100);
    who = stage.who(await stage.ask(flow, 400), family);
  }
  return who;
}

async function moves(stage: Stage, flow: Flow, family: FamilyName, pod: Pod, what: string): Promise<void> {
  const who = await askUntil(stage, flow, family, (seen) => seen === pod);
  if (who !== pod) {
    stage.fault(family, `${what}: ${who}, not ${pod}`);
  }
}

const udp: Story = {
  name: "UDP moves to a new endpoint on the same socket",
  async run(stage) {
    const [dns, other] = await stage.create(
      { name: "dns", type: "NodePort", transports: ["udp"], endpoints: ["b"] },
      { name: "other", transports: ["udp"], endpoints: ["d"] },
    );
    if (dns === undefined || other === undefined) {
      return;
    }
    const open = async (
      from: Place,
      service: Placed,
      door: Door,
    ): Promise<{ family: FamilyName; from: Place; flow: Flow }[]> =>
      Promise.all(
        stage.families.map(async (family) => ({
          family,
          from,
          flow: await stage.open(stage.attempt(from, service, door, family, "udp")),
        })),
      );
    const flows = [
      ...(await open("pod-a", dns, "cluster IP")),
      ...(await open("node", dns, "cluster IP")),
      ...(await open("outside", dns, "node port")),
    ];
    const bystanders = await open("pod-a", other, "cluster IP");
    const all = async (pod: Pod, when: string): Promise<void> => {
      for (const { family, from, flow } of flows) {
        await moves(stage, flow, family, pod, `${from}, ${when}`);
      }
      for (const { family, flow } of bystanders) {
        await moves(stage, flow, family, "d", `another Service's flow, ${when}`);
      }
    };
    await all("b", "at first");
    await stage.setEndpoints(dns, ["c"]);
    await all("c", "after b was replaced by c");
    await stage.setEndpoints(dns, []);
    for (const { family, from, flow } of flows) {
      const who = await askUntil(stage, flow, family, (seen) => seen !== "b" && seen !== "c");
      if (who === "b" || who === "c") {
        stage.fault(family, `${from}: ${who} still answers without endpoints`);
      }
    }
    await stage.setEndpoints(dns, ["b"]);
    await all("b", "after an endpoint came back");
    for (const { flow } of [...flows, ...bystanders]) {
      flow.close();
    }
  },
};

export const change: readonly Story[] = [rolling, restart, layouts, established, udp];
