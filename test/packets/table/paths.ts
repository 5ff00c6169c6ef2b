/** Rows: every way to a Service with ordinary policies. */
import { answered, dropped, inIptables, kept, masqueraded, type Row, refused, type Transport, to } from "../row.ts";

const transports: readonly Transport[] = ["tcp", "udp", "sctp"];

/** A Service with all doors and endpoints on both nodes, by each transport. */
const everyDoor: readonly Row[] = transports.map((transport) => ({
  name: `every door, ${transport}`,
  setting: "plain",
  services: [{ name: "web", type: "LoadBalancer", external: true, transports: [transport], endpoints: ["b", "c"] }],
  packets: [
    ...to("web", "cluster IP", [
      ["pod-a", kept("b", "c")],
      ["node", masqueraded("b", "c")],
      ["outside", masqueraded("b", "c")],
    ]),
    ...(["node port", "load balancer", "external IP"] as const).flatMap((door) =>
      to("web", door, [
        ["pod-a", masqueraded("b", "c")],
        ["node", masqueraded("b", "c")],
        ["outside", masqueraded("b", "c")],
      ]),
    ),
  ].map((packet) => ({ ...packet, transport })),
}));

const hairpins: readonly Row[] = transports.map((transport) => ({
  name: `a pod reaches itself, ${transport}`,
  setting: "plain",
  services: [
    { name: "self", type: "LoadBalancer", external: true, transports: [transport], endpoints: ["a"] },
    { name: "self-local", type: "LoadBalancer", transports: [transport], externalLocal: true, endpoints: ["a"] },
  ],
  packets: [
    ...(["cluster IP", "node port", "load balancer", "external IP"] as const).flatMap((door) =>
      to("self", door, [["pod-a", masqueraded("a")]]),
    ),
    ...to("self-local", "load balancer", [["pod-a", masqueraded("a")]]),
    ...to("self", "cluster IP", [["pod-b", kept("a")]]),
  ].map((packet) => ({ ...packet, transport })),
}));

export const paths: readonly Row[] = [
  {
    name: "same node, other node",
    setting: "plain",
    services: [
      { name: "near", endpoints: ["b"] },
      { name: "far", endpoints: ["c"] },
    ],
    packets: [
      ...to("near", "cluster IP", [
        ["pod-a", kept("b")],
        ["node", masqueraded("b")],
        ["outside", masqueraded("b")],
      ]),
      ...to("far", "cluster IP", [
        ["pod-a", kept("c")],
        ["node", masqueraded("c")],
        ["outside", masqueraded("c")],
      ]),
    ],
  },
  ...everyDoor,
  ...hairpins,
  {
    name: "node port on other addresses of the node",
    setting: "plain",
    services: [{ name: "web", type: "NodePort", endpoints: ["b", "c"] }],
    packets: [
      // nftables serves the primary address only unless told otherwise.
      ...to("web", "node port, second address", [
        ["outside", masqueraded("b", "c"), { nftables: refused }],
        ["pod-a", masqueraded("b", "c"), { nftables: refused }],
        ["node", masqueraded("b", "c"), { nftables: refused }],
      ]),
      ...to("web", "node port, bridge address", [["pod-a", masqueraded("b", "c"), { nftables: refused }]]),
      ...to("web", "node port, loopback", [["node", refused, inIptables(masqueraded("b", "c"))]], {
        families: ["IPv4"],
      }),
      ...to("web", "node port, loopback", [["node", refused]], { families: ["IPv6"] }),
    ],
  },
  {
    name: "node port on localhost, only local endpoints",
    setting: "plain",
    services: [{ name: "web", type: "NodePort", externalLocal: true, endpoints: ["b"] }],
    packets: to("web", "node port, loopback", [["node", refused, inIptables(masqueraded("b"))]], {
      families: ["IPv4"],
    }),
  },
  {
    name: "node port on localhost turned off",
    setting: "no-localhost",
    services: [{ name: "web", type: "NodePort", endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "node port, loopback", [["node", refused]]),
      ...to("web", "node port", [["outside", masqueraded("b", "c")]]),
    ],
  },
  {
    name: "node port on localhost by the feature gate",
    setting: "localhost-gate",
    modes: ["nftables"],
    services: [{ name: "web", type: "NodePort", endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "node port, loopback", [["node", masqueraded("b", "c")]]),
      ...to("web", "node port", [["outside", masqueraded("b", "c")]]),
    ],
  },
  {
    name: "nodePortAddresses with one network",
    setting: "one-network",
    services: [{ name: "web", type: "NodePort", endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "node port", [
        ["outside", masqueraded("b", "c")],
        ["pod-a", masqueraded("b", "c")],
        ["node", masqueraded("b", "c")],
      ]),
      ...to("web", "node port, second address", [
        ["outside", refused],
        ["pod-a", refused],
        ["node", refused],
      ]),
      ...to("web", "node port, bridge address", [["pod-a", refused]]),
      ...to("web", "node port, loopback", [["node", refused]]),
    ],
  },
  {
    name: "nodePortAddresses with the zero networks",
    setting: "all-addresses",
    services: [{ name: "web", type: "NodePort", endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "node port", [["outside", masqueraded("b", "c")]]),
      ...to("web", "node port, second address", [
        ["outside", masqueraded("b", "c")],
        ["pod-a", masqueraded("b", "c")],
        ["node", masqueraded("b", "c")],
      ]),
      ...to("web", "node port, bridge address", [["pod-a", masqueraded("b", "c")]]),
    ],
  },
  {
    name: "ipMode Proxy leaves the address to the load balancer",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", ipMode: "Proxy", endpoints: ["b"] }],
    packets: [
      ...to("web", "load balancer", [
        ["pod-a", dropped],
        ["node", dropped],
        ["outside", dropped],
      ]),
      ...to("web", "cluster IP", [["pod-a", kept("b")]]),
      ...to("web", "node port", [["outside", masqueraded("b")]]),
    ],
  },
  {
    name: "ports that no Service has",
    setting: "plain",
    services: [{ name: "web", type: "LoadBalancer", external: true, endpoints: ["b"] }],
    packets: [
      // iptables has nothing to say about them: they follow the route out of the node and get lost.
      ...to(
        "web",
        "cluster IP",
        [
          ["pod-a", refused, inIptables(dropped)],
          ["node", refused, inIptables(dropped)],
          ["outside", refused, inIptables(dropped)],
        ],
        { port: 81 },
      ),
      ...to("web", "cluster IP", [["pod-a", refused, inIptables(dropped)]], { port: 81, transport: "udp" }),
      // A server of the node itself must not be reachable on addresses that ipvs binds to it.
      ...to(
        "web",
        "cluster IP",
        [
          ["pod-a", refused, inIptables(dropped)],
          ["node", refused, inIptables(dropped)],
          ["outside", refused, inIptables(dropped)],
        ],
        { port: 10022 },
      ),
      ...(["load balancer", "external IP"] as const).flatMap((door) =>
        to(
          "web",
          door,
          [
            ["pod-a", dropped, { ipvs: refused }],
            ["outside", dropped, { ipvs: refused }],
          ],
          { port: 10022 },
        ),
      ),
    ],
  },
  {
    name: "masqueradeAll",
    setting: "masquerade-all",
    services: [{ name: "web", type: "LoadBalancer", endpoints: ["b", "c"] }],
    packets: [
      ...to("web", "cluster IP", [
        ["pod-a", masqueraded("b", "c")],
        ["node", masqueraded("b", "c")],
        ["outside", masqueraded("b", "c")],
      ]),
      ...to("web", "load balancer", [["outside", answered("b", "c")]]),
    ],
  },
];
