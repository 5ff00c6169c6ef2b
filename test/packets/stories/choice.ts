/** Stories about which endpoint is chosen: equal shares, session affinity and its end. */
import { crowd, type Pod } from "../../lab/topology.ts";
import { spreadFault } from "../judge.ts";
import type { Story } from "../stage.ts";

const spread: Story = {
  name: "3, 7 and 40 endpoints get equal shares",
  async run(stage) {
    const sizes = [3, 7, 40];
    const services = await stage.create(
      ...sizes.map((size) => ({ name: `of-${size}`, type: "NodePort" as const, endpoints: crowd.slice(0, size) })),
    );
    for (const [i, service] of services.entries()) {
      const size = sizes[i] ?? 0;
      for (const family of stage.families) {
        const each = stage.mode === "ipvs" ? 12 : 60;
        for (const [from, door] of [
          ["pod-a", "cluster IP"],
          ["outside", "node port"],
        ] as const) {
          const attempts = Array.from({ length: each * size }, () => stage.attempt(from, service, door, family));
          const fault = spreadFault(await stage.probe(attempts), crowd.slice(0, size), family);
          if (fault !== undefined) {
            stage.fault(family, `${size} endpoints, ${from}: ${fault}`);
          }
        }
      }
    }
  },
};

const many: readonly Pod[] = crowd.slice(0, 7);

const affinity: Story = {
  name: "session affinity keeps a client at one pod until that is not ready",
  async run(stage) {
    const [plain, local] = await stage.create(
      { name: "sticky", type: "NodePort", affinitySeconds: 600, endpoints: many },
      { name: "sticky-local", type: "LoadBalancer", externalLocal: true, affinitySeconds: 600, endpoints: many },
    );
    if (plain === undefined || local === undefined) {
      return;
    }
    const chosen = new Map<string, string>();
    const clients = [
      ["pod-a", plain, "cluster IP"],
      ["outside", plain, "node port"],
      ["outside-2", local, "load balancer"],
    ] as const;
    for (const family of stage.families) {
      for (const [from, service, door] of clients) {
        // One after the other: the kernel remembers a client only after its first packet.
        const first = await stage.probe([stage.attempt(from, service, door, family)]);
        const more = await stage.probe(Array.from({ length: 49 }, () => stage.attempt(from, service, door, family)));
        const pods = new Set([...first, ...more].map((outcome) => stage.who(outcome, family)));
        if (pods.size !== 1 || !many.some((pod) => pods.has(pod))) {
          stage.fault(family, `50 connections ${from} → ${door} reached ${[...pods].join(", ")}`);
        }
        chosen.set(`${family} ${from}`, [...pods][0] ?? "");
      }
    }
    const unready = new Set(chosen.values());
    const rest = many.filter((pod) => !unready.has(pod));
    const endpoints = many.map((pod) => ({ pod, ready: rest.includes(pod) }));
    await stage.setEndpoints(plain, endpoints);
    await stage.setEndpoints(local, endpoints);
    for (const family of stage.families) {
      for (const [from, service, door] of clients) {
        const first = await stage.probe([stage.attempt(from, service, door, family)]);
        const more = await stage.probe(Array.from({ length: 19 }, () => stage.attempt(from, service, door, family)));
        const pods = new Set([...first, ...more].map((outcome) => stage.who(outcome, family)));
        if (pods.size !== 1 || !rest.some((pod) => pods.has(pod))) {
          stage.fault(family, `after the pod turned unready, ${from} → ${door} reached ${[...pods].join(", ")}`);
        }
      }
    }
  },
};

const expiry: Story = {
  name: "session affinity ends after its time",
  async run(stage) {
    const endpoints: readonly Pod[] = ["a", "b", "c", "d"];
    const services = await stage.create(
      ...Array.from({ length: 14 }, (_, i) => ({
        name: `brief-${i}`,
        transports: ["udp"] as const,
        affinitySeconds: 2,
        endpoints,
      })),
    );
    const round = async (): Promise<string[]> => {
      const pairs = stage.families.flatMap((family) => services.map((service) => ({ family, service })));
      const attempts = pairs.map(({ family, service }) =>
        stage.attempt("outside", service, "cluster IP", family, "udp"),
      );
      const outcomes = await stage.probe(attempts);
      return outcomes.map((outcome, i) => stage.who(outcome, pairs[i]?.family ?? "IPv4"));
    };
    const first = await round();
    const second = await round();
    // ipvs forgets a client only once its flows ended too.
    await stage.wait(stage.mode === "ipvs" ? 9000 : 4000);
    const third = await round();
    for (const [i, family] of stage.families.entries()) {
      const part = (list: readonly string[]): string =>
        list.slice(i * services.length, (i + 1) * services.length).join(" ");
      if (part(first) !== part(second)) {
        stage.fault(family, `did not hold: ${part(first)} then ${part(second)}`);
      }
      if (part(first) === part(third)) {
        stage.fault(family, `${services.length} Services all chose the same pods again: ${part(third)}`);
      }
    }
  },
};

export const choice: readonly Story[] = [spread, affinity, expiry];
