/** The lab's map, as data: two nodes with a bridge and pods each, an outside host, and the routes of a routed cluster. */
import type { FamilyName } from "../../src/model/family.ts";

/** Where a packet can start. `outside` and `outside-2` are two addresses of the outside host; `node` is node-1 itself. */
export type Place = "pod-a" | "pod-b" | "pod-c" | "node" | "outside" | "outside-2";

/** Pods that can answer: a, b and the forty of the crowd on node-1 (the proxied one); c and d on node-2. */
export type Pod = "a" | "b" | "c" | "d" | `m${number}`;

export const families: readonly FamilyName[] = ["IPv4", "IPv6"];
export const crowdSize = 40;
export const nodeName = "node-1";
export const otherNodeName = "node-2";
export const podPort = 8080;
/** A server of node-1 itself, on all its addresses; plays sshd or a kubelet. */
export const hostPort = 10022;

type Pair = Readonly<Record<FamilyName, string>>;
const pair = (v4: string, v6: string): Pair => ({ IPv4: v4, IPv6: v6 });

export const nodeAddress = pair("192.0.2.10", "fd00:192::10");
/** node-1's address on its second network. */
export const secondNodeAddress = pair("198.51.100.10", "fd00:198::10");
export const otherNodeAddress = pair("192.0.2.20", "fd00:192::20");
export const outsideAddress = pair("192.0.2.1", "fd00:192::1");
export const secondOutsideAddress = pair("192.0.2.2", "fd00:192::2");
export const loopbackAddress = pair("127.0.0.1", "::1");
export const gateway = pair("10.1.1.1", "fd00:1:1::1");
export const otherGateway = pair("10.1.2.1", "fd00:1:2::1");
export const clusterCIDR = pair("10.1.0.0/16", "fd00:1::/32");
export const podCIDR = pair("10.1.1.0/24", "fd00:1:1::/64");
export const otherPodCIDR = pair("10.1.2.0/24", "fd00:1:2::/64");
export const serviceCIDR = pair("10.96.0.0/16", "fd00:96::/112");
export const loadBalancerCIDR = pair("172.30.0.0/16", "fd00:30::/112");
export const externalCIDR = pair("172.31.0.0/16", "fd00:31::/112");
export const nodeNetwork = pair("192.0.2.0/24", "fd00:192::/64");
export const secondNetwork = pair("198.51.100.0/24", "fd00:198::/64");
export const bridgeName = "cbr0";

/** All addresses of node-1 that a masqueraded connection can carry. */
export const nodeAddresses: Readonly<Record<FamilyName, readonly string[]>> = {
  IPv4: [nodeAddress.IPv4, secondNodeAddress.IPv4, gateway.IPv4],
  IPv6: [nodeAddress.IPv6, secondNodeAddress.IPv6, gateway.IPv6],
};

const podIndex: Readonly<Record<string, number>> = { a: 10, b: 11, c: 10, d: 11 };

export function podAddress(pod: Pod, family: FamilyName): string {
  if (pod.startsWith("m")) {
    const n = Number(pod.slice(1));
    return family === "IPv4" ? `10.1.1.${100 + n}` : `fd00:1:1::1:${n.toString(16)}`;
  }
  const net = pod === "a" || pod === "b" ? 1 : 2;
  const n = podIndex[pod] ?? 0;
  return family === "IPv4" ? `10.1.${net}.${n}` : `fd00:1:${net}::${n.toString(16)}`;
}

export function podNode(pod: Pod): string {
  return pod === "c" || pod === "d" ? otherNodeName : nodeName;
}

export function podNamed(ip: string, family: FamilyName): Pod | undefined {
  return allPods.find((pod) => podAddress(pod, family) === ip);
}

export const crowd: readonly Pod[] = Array.from({ length: crowdSize }, (_, i): Pod => `m${i + 1}`);
export const allPods: readonly Pod[] = ["a", "b", "c", "d", ...crowd];

export function placeAddress(place: Place, family: FamilyName): string | undefined {
  switch (place) {
    case "node":
      return undefined;
    case "outside":
      return outsideAddress[family];
    case "outside-2":
      return secondOutsideAddress[family];
    default:
      return podAddress(place.slice(4) as Pod, family);
  }
}

/** Short names of the namespaces; the lab puts its unique prefix before them. */
export type Space = "node1" | "node2" | "outside" | "pod-a" | "pod-b" | "pod-c" | "pod-d" | "crowd";
export const spaces: readonly Space[] = ["node1", "node2", "outside", "pod-a", "pod-b", "pod-c", "pod-d", "crowd"];

export function placeSpace(place: Place): Space {
  switch (place) {
    case "node":
      return "node1";
    case "outside":
    case "outside-2":
      return "outside";
    default:
      return place;
  }
}

const v6 = (ip: string, bits: number): string => `${ip}/${bits} dev`;

/** `ip -batch` lines by namespace, in the order to run them. `full` gives a namespace's unique name. */
export function wiring(full: (space: Space) => string): readonly (readonly [Space, readonly string[]])[] {
  const pods: readonly (readonly [Space, readonly Pod[], "node1" | "node2"])[] = [
    ["pod-a", ["a"], "node1"],
    ["pod-b", ["b"], "node1"],
    ["crowd", crowd, "node1"],
    ["pod-c", ["c"], "node2"],
    ["pod-d", ["d"], "node2"],
  ];
  const ports = (node: Space): string[] =>
    pods
      .filter(([, , on]) => on === node)
      .flatMap(([space]) => [
        `link add v-${space} type veth peer name eth0 netns ${full(space)}`,
        `link set v-${space} master ${bridgeName} up`,
        `link set v-${space} type bridge_slave hairpin on`,
      ]);
  return [
    ["outside", outsideWiring(full)],
    [
      "node1",
      [
        ...bridge(gateway),
        ...nodeWiring(nodeAddress),
        ...secondWiring(),
        ...ports("node1"),
        ...routes(otherPodCIDR, otherNodeAddress),
      ],
    ],
    [
      "node2",
      [...bridge(otherGateway), ...nodeWiring(otherNodeAddress), ...ports("node2"), ...routes(podCIDR, nodeAddress)],
    ],
    ...pods.map(([space, names, on]): readonly [Space, readonly string[]] => [
      space,
      podWiring(names, on === "node1" ? gateway : otherGateway),
    ]),
  ];
}

function outsideWiring(full: (space: Space) => string): string[] {
  return [
    "link set lo up",
    "link add lan type bridge",
    "link set lan up",
    `link add lan-1 type veth peer name eth0 netns ${full("node1")}`,
    `link add lan-2 type veth peer name eth0 netns ${full("node2")}`,
    `link add lan-3 type veth peer name eth1 netns ${full("node1")}`,
    "link set lan-1 master lan up",
    "link set lan-2 master lan up",
    "link set lan-3 up",
    "addr add 192.0.2.1/24 dev lan",
    "addr add 192.0.2.2/24 dev lan",
    `addr add ${v6(outsideAddress.IPv6, 64)} lan nodad`,
    `addr add ${v6(secondOutsideAddress.IPv6, 64)} lan nodad`,
    "addr add 198.51.100.1/24 dev lan-3",
    `addr add ${v6("fd00:198::1", 64)} lan-3 nodad`,
    ...[podCIDR, serviceCIDR, loadBalancerCIDR, externalCIDR].flatMap((to) => routes(to, nodeAddress)),
    ...routes(otherPodCIDR, otherNodeAddress),
  ];
}

function bridge(address: Pair): string[] {
  return [
    "link set lo up",
    `link add ${bridgeName} type bridge`,
    `link set ${bridgeName} up`,
    `addr add ${address.IPv4}/24 dev ${bridgeName}`,
    `addr add ${v6(address.IPv6, 64)} ${bridgeName} nodad`,
  ];
}

function nodeWiring(address: Pair): string[] {
  return [
    "link set eth0 up",
    `addr add ${address.IPv4}/24 dev eth0`,
    `addr add ${v6(address.IPv6, 64)} eth0 nodad`,
    `route add default via ${outsideAddress.IPv4}`,
    `route add default via ${outsideAddress.IPv6}`,
  ];
}

function secondWiring(): string[] {
  return [
    "link set eth1 up",
    `addr add ${secondNodeAddress.IPv4}/24 dev eth1`,
    `addr add ${v6(secondNodeAddress.IPv6, 64)} eth1 nodad`,
  ];
}

/** Host routes only: even pods of one node reach each other through its routing, as most networks do it. */
function podWiring(names: readonly Pod[], via: Pair): string[] {
  return [
    "link set lo up",
    "link set eth0 up",
    ...names.flatMap((pod) => [
      `addr add ${podAddress(pod, "IPv4")}/32 dev eth0`,
      `addr add ${podAddress(pod, "IPv6")}/128 dev eth0 nodad`,
    ]),
    `route add ${via.IPv4} dev eth0`,
    `route add default via ${via.IPv4}`,
    `route add ${via.IPv6} dev eth0`,
    `route add default via ${via.IPv6}`,
  ];
}

function routes(to: Pair, via: Pair): string[] {
  return [`route add ${to.IPv4} via ${via.IPv4}`, `route add ${to.IPv6} via ${via.IPv6}`];
}
