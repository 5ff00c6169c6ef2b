/** The API server: whether it answers, what it lets us do, whether it knows this Node, and whether our clocks agree. */
import { nodeNameOf } from "../../app/node-start.ts";
import { openTransport } from "../../app/source.ts";
import type { Config } from "../../config/config.ts";
import { ApiError } from "../../kube/api-error.ts";
import { readManifests } from "../../kube/manifest-objects.ts";
import { getNode } from "../../kube/node-wait.ts";
import { ObjectStore } from "../../kube/object-store.ts";
import type { Transport } from "../../kube/transport.ts";
import { dig } from "../../model/json.ts";
import type { Log } from "../../model/log.ts";
import type { NodeInfo } from "../../model/node.ts";
import { troubleLine } from "../trouble.ts";
import { type Check, fail, ok, warn } from "./check.ts";

const topic = "cluster";

export interface ClusterFindings {
  readonly checks: readonly Check[];
  readonly node: NodeInfo | undefined;
}

/** Objects from files need no API server. */
export function checkManifests(paths: readonly string[], config: Config, log: Log): ClusterFindings {
  const store = new ObjectStore(nodeNameOf(config));
  try {
    readManifests(paths, store, log);
  } catch (error) {
    const line = troubleLine(error);
    if (line === undefined) throw error;
    return {
      checks: [fail(topic, line, "the proxy waits for it and writes no rules", "correct the file")],
      node: undefined,
    };
  }
  const found = `${store.services.rows.size} Services and ${store.endpointSlices.rows.size} EndpointSlices in ${paths.join(", ")}`;
  return { checks: [ok(topic, found), nodeCheck(store.node, nodeNameOf(config), config)], node: store.node };
}

export async function checkCluster(config: Config, master: string, log: Log): Promise<ClusterFindings> {
  let skew: number | undefined;
  let transport: Transport;
  try {
    transport = openTransport(
      config,
      { master },
      log,
      () => {},
      (headers) => {
        const date = Date.parse(headers.get("date") ?? "");
        if (!Number.isNaN(date)) skew = Date.now() - date;
      },
    );
  } catch (error) {
    const line = troubleLine(error);
    if (line === undefined) throw error;
    const fix =
      "clientConnection.kubeconfig in the configuration, --kubeconfig, or --manifests for a node without a cluster";
    return { checks: [fail(topic, line, "there is no way to the API server", fix)], node: undefined };
  }
  const reach = await checkReach(transport);
  if (reach.verdict === "fail") return { checks: [reach], node: undefined };
  const name = nodeNameOf(config);
  const answer = await getNode(transport, name, AbortSignal.timeout(20_000));
  const node = answer.kind === "found" ? answer.node : undefined;
  const checks = [reach, ...(await checkRights(transport, config)), nodeCheck(node, name, config), clockCheck(skew)];
  return { checks, node };
}

// --- internal ---

interface Right {
  readonly group: string;
  readonly resource: string;
  readonly verbs: readonly string[];
  readonly path: string;
  /** Undefined: the proxy cannot work without it. */
  readonly without?: string;
}

const list = (group: string, resource: string): Right => ({
  group,
  resource,
  verbs: ["list", "watch"],
  path: group === "" ? `/api/v1/${resource}` : `/apis/${group}/v1/${resource}`,
});

function rights({ mode }: Config): readonly Right[] {
  const cidrs = { ...list("networking.k8s.io", "servicecidrs"), without: "unused cluster IPs are not rejected" };
  return [
    list("", "services"),
    list("discovery.k8s.io", "endpointslices"),
    { ...list("", "nodes"), verbs: ["get", "list", "watch"] },
    ...(mode === "nftables" ? [cidrs] : []),
    {
      group: "events.k8s.io",
      resource: "events",
      verbs: ["create", "patch"],
      path: "",
      without: "kubectl get events does not show what the proxy reports",
    },
  ];
}

async function checkReach(transport: Transport): Promise<Check> {
  try {
    await transport.request({
      verb: "list",
      resource: "services",
      path: "/api/v1/services?limit=1",
      signal: AbortSignal.timeout(15_000),
    });
    return ok(topic, `the API server answers at ${transport.server}`);
  } catch (error) {
    if (error instanceof ApiError && error.facts.status === 403)
      return ok(topic, `the API server answers at ${transport.server}`);
    const line = troubleLine(error);
    if (line === undefined) throw error;
    return fail(
      topic,
      line,
      "no Services are known: no rules are written",
      "check clientConnection.kubeconfig, its server and its credentials",
    );
  }
}

async function checkRights(transport: Transport, config: Config): Promise<readonly Check[]> {
  const checks: Check[] = [];
  for (const right of rights(config)) {
    const denied: string[] = [];
    let unknown = false;
    for (const verb of right.verbs) {
      const allowed = await mayWe(transport, right, verb);
      if (allowed === undefined) unknown = true;
      else if (!allowed) denied.push(verb);
    }
    checks.push(rightCheck(right, denied, unknown));
  }
  return checks;
}

function rightCheck({ group, resource, verbs, without }: Right, denied: readonly string[], unknown: boolean): Check {
  const name = group === "" ? resource : `${resource}.${group}`;
  const fix = `kubectl create clusterrolebinding kube-proxy --clusterrole system:node-proxier --serviceaccount kube-system:kube-proxy`;
  if (denied.length > 0) {
    const found = `may not ${denied.join(", ")} ${name}`;
    if (without !== undefined) return warn(topic, found, without, fix);
    return fail(topic, found, "the proxy waits for them and writes no rules", fix);
  }
  if (unknown) return warn(topic, `it could not be told whether we may ${verbs.join(", ")} ${name}`, "", "");
  return ok(topic, `may ${verbs.join(", ")} ${name}`);
}

/** Asks the API server; where it does not tell, a small list is tried. Undefined: it cannot be told. */
async function mayWe(
  transport: Transport,
  { group, resource, path }: Right,
  verb: string,
): Promise<boolean | undefined> {
  const signal = AbortSignal.timeout(15_000);
  try {
    const review = await transport.request({
      verb: "create",
      resource: "selfsubjectaccessreviews.authorization.k8s.io",
      path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SelfSubjectAccessReview",
        spec: { resourceAttributes: { group, resource, verb } },
      },
      signal,
    });
    const allowed = dig(review, "status", "allowed");
    return typeof allowed === "boolean" ? allowed : undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (path === "" || verb !== "list") return undefined;
  }
  try {
    await transport.request({ verb: "list", resource, path: `${path}?limit=1`, signal });
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.facts.status === 403 || error.facts.status === 401 ? false : undefined;
  }
}

function nodeCheck(node: NodeInfo | undefined, name: string, { detectLocalMode, hostnameOverride }: Config): Check {
  if (node === undefined) {
    const from = hostnameOverride === "" ? "this machine's host name" : "hostnameOverride";
    return warn(
      topic,
      `no Node is named ${name} (${from})`,
      "no endpoint is local: Local traffic policies, topology hints and health check node ports do not work",
      "kubectl get nodes -o name, then --hostname-override NAME (hostnameOverride in the configuration)",
    );
  }
  if (node.addresses.length === 0)
    return warn(
      topic,
      `Node ${name} has no address`,
      "a loopback stand-in is used until it gets one",
      "kubectl get node -o wide: is the kubelet, or the cloud's controller, running?",
    );
  if (detectLocalMode === "NodeCIDR" && node.podCIDRs.length === 0)
    return warn(
      topic,
      `Node ${name} has no pod CIDRs, though detectLocalMode is NodeCIDR`,
      "traffic of pods is not told from other traffic",
      "let the controller manager assign them (--allocate-node-cidrs), or use detectLocalMode ClusterCIDR",
    );
  return ok(topic, `Node ${name} is there, with ${node.addresses.join(", ")}`);
}

/** The header has whole seconds. */
function clockCheck(skew: number | undefined): Check {
  if (skew === undefined) return warn(topic, "the API server says no date", "clocks cannot be compared", "");
  const seconds = Math.round(Math.abs(skew) / 1000);
  if (seconds <= 5) return ok(topic, "this clock and the API server's agree");
  const found = `this clock is ${seconds} s ${skew > 0 ? "ahead of" : "behind"} the API server's`;
  return warn(
    topic,
    found,
    "latency metrics are wrong; certificates and tokens may count as expired or not valid yet",
    "timedatectl set-ntp true (or start chronyd)",
  );
}
