/** Rows: both traffic policies with local, remote-only and no endpoints; source ranges. */
import {
  answered,
  type Door,
  dropped,
  inIptables,
  kept,
  masqueraded,
  type Packet,
  type Row,
  refused,
  type Transport,
  to,
} from "../row.ts";

const exposed = ["node port", "load balancer", "external IP"] as const;

/**
 * Without endpoints everyone is refused, but for one gap: in iptables mode load-balancer and external addresses are
 * not looked for in what the node itself sends, and its packets follow the route.
 */
const allRefused = (door: Door, transport: Transport = "tcp"): Packet[] =>
  to(
    "web",
    door,
    [
      ["outside", refused],
      ["pod-a", refused],
      ["node", refused, door === "load balancer" || door === "external IP" ? inIptables(dropped) : undefined],
    ],
    { transport },
  );

/** ipvs knows no short cut for pods and the node itself: they get what outside gets. */
const localHere: readonly Row[] = (["tcp", "udp"] as const).map((transport: Transport) => ({
  name: `externalTrafficPolicy Local, endpoints here and elsewhere, ${transport}`,
  setting: "plain",
  services: [
    {
      name: "web",
      type: "LoadBalancer",
      external: true,
      externalLocal: true,
      transports: [transport],
      endpoints: ["b", "c"],
    },
  ],
  packets: [
    ...exposed.flatMap((door) =>
      to("web", door, [
        ["outside", kept("b")],
        ["pod-a", kept("b", "c"), { ipvs: kept("b") }],
        ["node", masqueraded("b", "c"), { ipvs: answered("b") }],
      ]),
    ),
    ...to("web", "cluster IP", [
      ["pod-a", kept("b", "c")],
      ["node", masqueraded("b", "c")],
      ["outside", masqueraded("b", "c")],
    ]),
  ].map((packet) => ({ ...packet, transport })),
}));

export const policies: readonly Row[] = [
  ...localHere,
  {
    name: "externalTrafficPolicy Local, endpoints elsewhere only",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", external: true, externalLocal: true, endpoints: ["c"] }],
    packets: [
      ...exposed.flatMap((door) =>
        to("web", door, [
          ["outside", dropped],
          ["pod-a", kept("c")],
          // In ipvs mode the node speaks from the virtual address itself, which other nodes cannot answer.
          ["node", masqueraded("c"), { ipvs: door === "node port" ? answered("c") : dropped }],
        ]),
      ),
      ...to("web", "cluster IP", [
        ["pod-a", kept("c")],
        ["outside", masqueraded("c")],
      ]),
    ],
  },
  {
    name: "externalTrafficPolicy Local, no endpoint",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", external: true, externalLocal: true, endpoints: [] }],
    packets: [...exposed, "cluster IP" as const].flatMap((door) => allRefused(door)),
  },
  ...(["tcp", "udp", "sctp"] as const).map(
    (transport): Row => ({
      name: `no endpoint, ${transport}`,
      setting: "plain",
      services: [{ name: "web", type: "LoadBalancer", external: true, transports: [transport], endpoints: [] }],
      packets: [...exposed, "cluster IP" as const].flatMap((door) => allRefused(door, transport)),
    }),
  ),
  {
    name: "internalTrafficPolicy Local, endpoints here and elsewhere",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", internalLocal: true, endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "cluster IP", [
        ["pod-a", kept("b")],
        ["node", masqueraded("b")],
        ["outside", masqueraded("b")],
      ]),
      ...to("web", "node port", [["outside", masqueraded("b", "c")]]),
      ...to("web", "load balancer", [
        ["outside", masqueraded("b", "c")],
        ["pod-a", masqueraded("b", "c")],
      ]),
    ],
  },
  {
    name: "internalTrafficPolicy Local, endpoints elsewhere only",
    setting: "plain",
    services: [
      { name: "web", type: "LoadBalancer", internalLocal: true, endpoints: ["c"] },
      { name: "inner", internalLocal: true, endpoints: ["c"] },
    ],
    packets: [
      // ipvs falls back to all endpoints where the Service has a list of all, that is, where it is exposed.
      ...to("web", "cluster IP", [
        ["pod-a", dropped, { ipvs: kept("c") }],
        ["node", dropped, { ipvs: masqueraded("c") }],
        ["outside", dropped, { ipvs: masqueraded("c") }],
      ]),
      ...to("inner", "cluster IP", [
        ["pod-a", dropped, { ipvs: refused }],
        ["node", dropped, { ipvs: refused }],
        ["outside", dropped, { ipvs: refused }],
      ]),
      ...to("web", "load balancer", [["outside", masqueraded("c")]]),
      ...to("web", "node port", [["outside", masqueraded("c")]]),
    ],
  },
  {
    name: "internalTrafficPolicy Local, no endpoint",
    setting: "plain",
    services: [{ name: "web", internalLocal: true, endpoints: [] }],
    packets: to("web", "cluster IP", [
      ["pod-a", refused],
      ["node", refused],
      ["outside", refused],
    ]),
  },
  {
    name: "both policies Local",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", internalLocal: true, externalLocal: true, endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "cluster IP", [
        ["pod-a", kept("b")],
        ["node", masqueraded("b")],
      ]),
      ...to("web", "load balancer", [
        ["outside", kept("b")],
        // The short cut of pods to all endpoints is not bound by the internal policy.
        ["pod-a", kept("b", "c"), { ipvs: kept("b") }],
      ]),
    ],
  },
  {
    name: "source ranges",
    setting: "plain",
    services: [
      { name: "web", type: "LoadBalancer", external: true, ranges: ["outside"], endpoints: ["b"] },
      { name: "open", addressesOf: "web", type: "LoadBalancer", port: 81, endpoints: ["c"] },
      { name: "node", type: "LoadBalancer", ranges: ["node"], endpoints: ["b"] },
      { name: "pods", type: "LoadBalancer", ranges: ["pods", "outside-2"], endpoints: ["b"] },
      { name: "nobody", type: "LoadBalancer", ranges: ["nobody"], endpoints: ["b"] },
      { name: "local", type: "LoadBalancer", externalLocal: true, ranges: ["outside"], endpoints: ["b", "c"] },
    ],
    packets: [
      ...to("web", "load balancer", [
        ["outside", masqueraded("b")],
        ["outside-2", dropped],
        ["pod-a", dropped],
        ["node", dropped],
      ]),
      ...to("web", "node port", [
        ["outside-2", masqueraded("b")],
        ["pod-a", masqueraded("b")],
      ]),
      ...to("web", "external IP", [["outside-2", masqueraded("b")]]),
      ...to("web", "cluster IP", [["pod-a", kept("b")]]),
      ...to("open", "load balancer", [
        ["outside", masqueraded("c")],
        ["outside-2", masqueraded("c")],
      ]),
      ...to("node", "load balancer", [
        ["node", answered("b")],
        ["outside", dropped],
      ]),
      ...to("pods", "load balancer", [
        ["pod-a", masqueraded("b")],
        ["outside-2", masqueraded("b")],
        ["outside", dropped],
      ]),
      ...to("nobody", "load balancer", [
        ["outside", dropped],
        ["pod-a", dropped],
      ]),
      ...to("nobody", "node port", [["outside", masqueraded("b")]]),
      ...to("local", "load balancer", [
        ["outside", kept("b")],
        ["outside-2", dropped],
      ]),
    ],
  },
];
