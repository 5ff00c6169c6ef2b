import { describe, expect, test } from "bun:test";
import { ipvs } from "../../../src/backends/ipvs/index.ts";
import type { IpvsState } from "../../../src/backends/ipvs/state.ts";
import type { Context } from "../../../src/model/context.ts";
import { makePlan } from "../../../src/model/planner.ts";
import type { ServiceInput } from "../../../src/model/snapshot.ts";
import type { Step } from "../../../src/model/step.ts";
import { contextOf, makeInput, snapshotOf } from "./cluster.ts";

const context = contextOf();

function stateOf(inputs: readonly ServiceInput[], previous?: IpvsState, at: Context = context): IpvsState {
  return ipvs.desired(makePlan(snapshotOf(...inputs), at), at, previous);
}

/** `tool: input` of each step. */
function script(steps: readonly Step[]): readonly string[] {
  return steps.map((s) => (s.kind === "exec" ? `${s.tool}: ${(s.input ?? s.args).join("").trim()}` : s.kind));
}

function change(from: IpvsState, to: IpvsState, now = 0, at: Context = context) {
  return ipvs.diff({ kind: "state", state: from }, to, at, now);
}

const web = makeInput({ name: "web", ip: "10.96.0.1", endpoints: ["10.244.1.5", "10.244.2.5"] });
const webLess = makeInput({ name: "web", ip: "10.96.0.1", endpoints: ["10.244.1.5"] });
const dns = makeInput({ name: "dns", ip: "10.96.0.2", protocol: "UDP", endpoints: ["10.244.2.5", "10.244.2.6"] });
const dnsLess = makeInput({ name: "dns", ip: "10.96.0.2", protocol: "UDP", endpoints: ["10.244.2.5"] });

describe("laws", () => {
  test("equal states have no steps", () => {
    expect(change(stateOf([web, dns]), stateOf([web, dns])).steps).toEqual([]);
  });

  test("renderings of unchanged plans are kept by identity", () => {
    const plan = makePlan(snapshotOf(web, dns), context);
    const first = ipvs.desired(plan, context, undefined);
    const next = ipvs.desired(makePlan(snapshotOf(web, dnsLess), context, plan), context, first);
    expect(next.services.get("ns/web")).toBe(first.services.get("ns/web"));
    expect(next.services.get("ns/dns")).not.toBe(first.services.get("ns/dns"));
  });

  test("an observation of nothing gets everything, set elements before rules before servers before addresses", () => {
    const nothing = ipvs.observe(context).parse([]);
    const { steps } = ipvs.diff({ kind: "observed", observed: nothing }, stateOf([web]), context, 0);
    // Sysctls too: what drifted is written again by a full sync.
    expect(steps.filter((s) => s.kind === "sysctl").length).toBeGreaterThan(3);
    expect(steps.flatMap((s) => (s.kind === "exec" ? [s.tool] : []))).toEqual([
      "ip",
      "ipset",
      "iptables-restore",
      "ipvsadm",
      "ip",
    ]);
  });
});

describe("a change costs few processes", () => {
  const many = Array.from({ length: 300 }, (_, i) =>
    makeInput({ name: `s${i}`, ip: `10.97.${i >> 8}.${i & 255}`, endpoints: ["10.244.2.7"] }),
  );

  test("another remote endpoint: one ipvsadm, one line", () => {
    const { steps } = change(stateOf([...many, webLess]), stateOf([...many, web]));
    expect(script(steps)).toEqual(["ipvsadm: -a -t 10.96.0.1:80 -r 10.244.2.5:8080 -m -w 1"]);
  });

  test("a new Service: sets, servers, address", () => {
    const { steps } = change(stateOf([...many]), stateOf([...many, dnsLess]));
    expect(script(steps)).toEqual([
      "ipset: add KUBE-CLUSTER-IP 10.96.0.2,udp:80\nadd KUBE-IPVS-IPS 10.96.0.2",
      "ipvsadm: -A -u 10.96.0.2:80 -s rr\n-a -u 10.96.0.2:80 -r 10.244.2.5:8080 -m -w 1",
      "ip: addr replace 10.96.0.2/32 dev kube-ipvs0",
    ]);
  });

  test("a removed Service: servers, address, then sets", () => {
    const { steps, againMs } = change(stateOf([...many, web]), stateOf([...many]));
    // The last local endpoint went, so the rule for hairpins goes before its set is empty.
    expect(script(steps)[0]).toStartWith("iptables-restore: *nat\n:KUBE-POSTROUTING");
    expect(script(steps).slice(1)).toEqual([
      "ipvsadm: -D -t 10.96.0.1:80",
      "ip: addr del 10.96.0.1/32 dev kube-ipvs0",
      "ipset: del KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5\ndel KUBE-CLUSTER-IP 10.96.0.1,tcp:80\ndel KUBE-IPVS-IPS 10.96.0.1",
    ]);
    expect(againMs).toBeUndefined();
  });

  test("an address that another Service still has stays", () => {
    const external = { externalIPs: ["198.51.100.7"] };
    const a = makeInput({ name: "a", ip: "10.96.0.5", port: 80, endpoints: [], spec: external });
    const b = makeInput({ name: "b", ip: "10.96.0.6", port: 81, endpoints: [], spec: external });
    const text = script(change(stateOf([a, b]), stateOf([b])).steps).join("\n");
    expect(text).toContain("del KUBE-EXTERNAL-IP 198.51.100.7,tcp:80");
    expect(text).toContain("addr del 10.96.0.5/32");
    expect(text).not.toContain("addr del 198.51.100.7");
    expect(text).not.toContain("del KUBE-IPVS-IPS 198.51.100.7");
  });

  test("a Service that takes over an address does not lose it", () => {
    const old = makeInput({ name: "a", ip: "10.96.0.5", endpoints: ["10.244.2.5"] });
    const heir = makeInput({ name: "b", ip: "10.96.0.5", endpoints: ["10.244.2.6"] });
    const { steps } = change(stateOf([old]), stateOf([heir]));
    expect(script(steps)).toEqual([
      "ipvsadm: -a -t 10.96.0.5:80 -r 10.244.2.6:8080 -m -w 1\n-e -t 10.96.0.5:80 -r 10.244.2.5:8080 -m -w 0",
    ]);
  });
});

describe("graceful termination", () => {
  const key = "tcp 10.96.0.1:80 10.244.2.5:8080";

  /** The state with connection counts as `ipvsadm -Ln --exact` would tell them. */
  function counted(state: IpvsState, connections: number): IpvsState {
    const stdout = `TCP  10.96.0.1:80 rr\n  -> 10.244.2.5:8080 Masq 0 ${connections} 0\n`;
    const reading = ipvs.refresh?.(state, context);
    if (reading === undefined) throw new Error("nothing drains");
    return reading.parse([{ exitCode: 0, stdout, stderr: "" }]);
  }

  test("TCP drains at weight 0 until its last connection has gone", () => {
    const first = change(stateOf([web]), stateOf([webLess]), 1000);
    expect(script(first.steps)).toEqual(["ipvsadm: -e -t 10.96.0.1:80 -r 10.244.2.5:8080 -m -w 0"]);
    expect(first.againMs).toBe(1000);
    expect([...first.state.draining.keys()]).toEqual([key]);
    const busy = change(counted(first.state, 2), stateOf([webLess]), 61_000);
    expect(busy.steps).toEqual([]);
    expect(busy.againMs).toBe(15_000);
    const idle = change(counted(busy.state, 0), stateOf([webLess]), 62_000);
    expect(script(idle.steps)).toEqual(["ipvsadm: -d -t 10.96.0.1:80 -r 10.244.2.5:8080"]);
    expect(idle.againMs).toBeUndefined();
    expect(idle.state.draining.size).toBe(0);
    expect(ipvs.refresh?.(idle.state, context)).toBeUndefined();
  });

  test("without a count nothing is cut", () => {
    const first = change(stateOf([web]), stateOf([webLess]), 0);
    const next = change(first.state, stateOf([webLess]), 500_000);
    expect(next.steps).toEqual([]);
    expect(next.againMs).toBe(30_000);
  });

  test("a server that comes back takes connections again", () => {
    const first = change(stateOf([web]), stateOf([webLess]), 0);
    const back = change(counted(first.state, 3), stateOf([web]), 1000);
    expect(script(back.steps)).toEqual(["ipvsadm: -e -t 10.96.0.1:80 -r 10.244.2.5:8080 -m -w 1"]);
    expect(back.state.draining.size).toBe(0);
  });

  test("a server that the kernel's list lacks once still drains; one that stays away is forgotten", () => {
    const first = change(stateOf([web]), stateOf([webLess]), 0);
    const empty = { exitCode: 0, stdout: "TCP  10.96.0.1:80 rr\n", stderr: "" };
    const look = (state: IpvsState): IpvsState => {
      const next = ipvs.refresh?.(state, context)?.parse([empty]);
      if (next === undefined) throw new Error("nothing drains");
      return change(next, stateOf([webLess]), 1000).state;
    };
    const twice = look(look(first.state));
    expect([...twice.draining.keys()]).toEqual([key]);
    const found = change(counted(twice, 0), stateOf([webLess]), 1000);
    expect(script(found.steps)).toEqual(["ipvsadm: -d -t 10.96.0.1:80 -r 10.244.2.5:8080"]);
    expect(look(twice).draining.size).toBe(0);
  });

  test("UDP goes at once", () => {
    const { steps, againMs } = change(stateOf([dns]), stateOf([dnsLess]));
    expect(script(steps)).toEqual(["ipvsadm: -d -u 10.96.0.2:80 -r 10.244.2.6:8080"]);
    expect(againMs).toBeUndefined();
  });

  test("the whole virtual server goes with its draining servers", () => {
    const first = change(stateOf([web, dns]), stateOf([webLess, dns]), 0);
    const gone = change(first.state, stateOf([dns]), 1000);
    expect(script(gone.steps).join("\n")).toContain("-D -t 10.96.0.1:80");
    expect(gone.againMs).toBeUndefined();
  });
});

describe("other options", () => {
  test("mh gets both of its flags", () => {
    const at = contextOf({ scheduler: "mh" });
    const { steps } = change(stateOf([], undefined, at), stateOf([dnsLess], undefined, at), 0, at);
    expect(script(steps).join("\n")).toContain("-A -u 10.96.0.2:80 -s mh -b mh-fallback,mh-port");
  });

  test("affinity is the Service's timeout in seconds", () => {
    const spec = { sessionAffinity: "ClientIP", sessionAffinityConfig: { clientIP: { timeoutSeconds: 10800 } } };
    const sticky = makeInput({ name: "web", ip: "10.96.0.1", endpoints: ["10.244.1.5", "10.244.2.5"], spec });
    const { steps } = change(stateOf([web]), stateOf([sticky]));
    expect(script(steps)).toEqual(["ipvsadm: -E -t 10.96.0.1:80 -s rr -p 10800"]);
  });

  test("a source range that is everything restricts nothing", () => {
    const spec = { type: "LoadBalancer", loadBalancerSourceRanges: ["0.0.0.0/0", "192.0.2.0/24"] };
    const status = { loadBalancer: { ingress: [{ ip: "203.0.113.1" }] } };
    const open = makeInput({ name: "lb", ip: "10.96.0.9", endpoints: [], spec, status });
    const text = script(change(stateOf([]), stateOf([open])).steps).join("\n");
    expect(text).toContain("add KUBE-LOAD-BALANCER 203.0.113.1,tcp:80");
    expect(text).not.toContain("SOURCE-CIDR 203");
    expect(text).not.toContain("LOAD-BALANCER-FW 203");
  });

  test("an external IP that is the node's own does not close the node's other ports", () => {
    const own = makeInput({ name: "a", ip: "10.96.0.5", endpoints: [], spec: { externalIPs: ["192.168.0.2"] } });
    const text = script(change(stateOf([]), stateOf([own])).steps).join("\n");
    expect(text).toContain("-A -t 192.168.0.2:80 -s rr");
    expect(text).toContain("add KUBE-EXTERNAL-IP 192.168.0.2,tcp:80");
    expect(text).not.toContain("KUBE-IPVS-IPS 192.168.0.2");
    expect(text).not.toContain("addr replace 192.168.0.2");
  });

  test("no virtual servers on loopback", () => {
    const node = makeInput({
      name: "np",
      ip: "10.96.0.8",
      endpoints: ["10.244.1.5"],
      spec: { type: "NodePort", ports: [{ port: 80, protocol: "TCP", nodePort: 30080 }] },
    });
    const text = script(change(stateOf([]), stateOf([node])).steps).join("\n");
    expect(text).toContain("-A -t 192.168.0.2:30080 -s rr");
    expect(text).not.toContain("127.0.0.1");
  });
});
