/** Rows: which endpoints serve (unready, terminating, hinted), and how pods are told from others. */
import { nodeName, otherNodeName } from "../../lab/topology.ts";
import { dropped, kept, masqueraded, type Packet, type Row, refused, type Setting, to } from "../row.ts";

const draining = { ready: false, serving: true, terminating: true } as const;
const gone = { ready: false, serving: false, terminating: true } as const;

const detectionPackets: readonly Packet[] = [
  ...to("far", "load balancer", [
    ["pod-a", kept("c")],
    ["outside", dropped],
  ]),
  ...to("far", "node port", [
    ["pod-a", kept("c")],
    ["outside", dropped],
  ]),
  ...to("web", "cluster IP", [
    ["pod-a", kept("b", "c")],
    ["node", masqueraded("b", "c")],
    ["outside", masqueraded("b", "c")],
  ]),
];

const detections: readonly Row[] = (["node-cidr", "bridge", "prefix"] as const).map((setting: Setting) => ({
  name: `pods are told by ${setting}`,
  setting,
  services: [
    { name: "far", type: "LoadBalancer", externalLocal: true, endpoints: ["c"] },
    { name: "web", endpoints: ["b", "c"] },
  ],
  packets: detectionPackets,
}));

export const endpoints: readonly Row[] = [
  ...detections,
  {
    name: "pods cannot be told: no cluster CIDR",
    setting: "no-detection",
    services: [
      { name: "far", type: "LoadBalancer", externalLocal: true, endpoints: ["c"] },
      { name: "near", endpoints: ["b"] },
    ],
    packets: [
      ...to("far", "load balancer", [
        ["pod-a", dropped, { ipvs: kept("c") }],
        ["outside", dropped],
      ]),
      // Nobody is known to be from elsewhere, so nobody is masqueraded.
      ...to("near", "cluster IP", [
        ["pod-a", kept("b")],
        ["outside", kept("b")],
      ]),
    ],
  },
  {
    name: "unready endpoints",
    setting: "plain",
    services: [
      { name: "some", type: "NodePort", endpoints: ["b", { pod: "c", ready: false }] },
      {
        name: "none",
        type: "NodePort",
        endpoints: [
          { pod: "b", ready: false },
          { pod: "c", ready: false },
        ],
      },
    ],
    packets: [
      ...to("some", "cluster IP", [["pod-a", kept("b")]]),
      ...to("some", "node port", [["outside", masqueraded("b")]]),
      ...to("none", "cluster IP", [["pod-a", refused]]),
      ...to("none", "node port", [["outside", refused]]),
    ],
  },
  {
    name: "terminating endpoints",
    setting: "plain",
    services: [
      {
        name: "all",
        type: "NodePort",
        endpoints: [
          { pod: "b", ...draining },
          { pod: "c", ...draining },
        ],
      },
      { name: "mixed", type: "NodePort", endpoints: [{ pod: "b", ...draining }, "c"] },
      { name: "gone", type: "NodePort", endpoints: [{ pod: "b", ...gone }] },
      { name: "here", type: "LoadBalancer", externalLocal: true, endpoints: [{ pod: "b", ...draining }, "c"] },
      { name: "inner", internalLocal: true, endpoints: [{ pod: "b", ...draining }, "c"] },
    ],
    packets: [
      ...to("all", "cluster IP", [["pod-a", kept("b", "c")]]),
      ...to("all", "node port", [["outside", masqueraded("b", "c")]]),
      ...to("mixed", "cluster IP", [["pod-a", kept("c")]]),
      ...to("mixed", "node port", [["outside", masqueraded("c")]]),
      ...to("gone", "cluster IP", [["pod-a", refused]]),
      ...to("gone", "node port", [["outside", refused]]),
      ...to("here", "load balancer", [
        ["outside", kept("b")],
        ["pod-a", kept("c"), { ipvs: kept("b") }],
      ]),
      ...to("inner", "cluster IP", [["pod-a", kept("b")]]),
    ],
  },
  {
    name: "hints",
    setting: "plain",
    services: [
      {
        name: "zone",
        type: "NodePort",
        endpoints: [
          { pod: "b", zones: ["zone-a"] },
          { pod: "c", zones: ["zone-b"] },
        ],
      },
      { name: "missing", endpoints: [{ pod: "b", zones: ["zone-a"] }, "c"] },
      {
        name: "elsewhere",
        endpoints: [
          { pod: "b", zones: ["zone-b"] },
          { pod: "c", zones: ["zone-b"] },
        ],
      },
      {
        name: "unready",
        endpoints: [
          { pod: "b", zones: ["zone-a"], ready: false },
          { pod: "c", zones: ["zone-b"] },
        ],
      },
      {
        name: "node",
        endpoints: [
          { pod: "b", nodes: [nodeName] },
          { pod: "c", nodes: [otherNodeName] },
        ],
      },
      {
        name: "node-first",
        endpoints: [
          { pod: "b", nodes: [nodeName], zones: ["zone-b"] },
          { pod: "c", nodes: [otherNodeName], zones: ["zone-a"] },
        ],
      },
    ],
    packets: [
      ...to("zone", "cluster IP", [["pod-a", kept("b")]]),
      ...to("zone", "node port", [["outside", masqueraded("b")]]),
      ...to("missing", "cluster IP", [["pod-a", kept("b", "c")]]),
      ...to("elsewhere", "cluster IP", [["pod-a", kept("b", "c")]]),
      ...to("unready", "cluster IP", [["pod-a", kept("c")]]),
      ...to("node", "cluster IP", [["pod-a", kept("b")]]),
      ...to("node-first", "cluster IP", [["pod-a", kept("b")]]),
    ],
  },
];
