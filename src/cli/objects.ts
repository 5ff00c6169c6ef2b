/** The objects that a subcommand works on, read once: from manifests, or listed from the API server. */
import { nodeNameOf } from "../app/node-start.ts";
import { openTransport } from "../app/source.ts";
import type { Config } from "../config/config.ts";
import { ApiError } from "../kube/api-error.ts";
import { type ApiResource, endpointSlices, serviceCIDRs, services } from "../kube/api-resource.ts";
import { listAll } from "../kube/listing.ts";
import { readManifests } from "../kube/manifest-objects.ts";
import { getNode } from "../kube/node-wait.ts";
import { NoteLog } from "../kube/note-log.ts";
import { ObjectStore } from "../kube/object-store.ts";
import type { Sink } from "../kube/sink.ts";
import type { Transport } from "../kube/transport.ts";
import { objectKey } from "../kube/watch-events.ts";
import { parseEndpointSlice } from "../model/endpoint-slice-parse.ts";
import type { Log } from "../model/log.ts";
import { parseServiceCIDR } from "../model/node-parse.ts";
import type { Parsed } from "../model/note.ts";
import { parseService } from "../model/service-parse.ts";
import type { Snapshot } from "../model/snapshot.ts";
import { Trouble } from "./trouble.ts";

export interface Objects {
  readonly snapshot: Snapshot;
  readonly nodeName: string;
  /** Why this name, when nobody gave it; empty: it was given or is this host's. */
  readonly nodeReason: string;
  /** `manifests/` or the URL of the API server. */
  readonly source: string;
}

export interface ObjectsWanted {
  readonly config: Config;
  readonly manifests: readonly string[];
  /** URL of the API server; empty: as the kubeconfig says. */
  readonly master: string;
  readonly log: Log;
  /** Where this host is no Node of the manifests, take the only one there is for it; the running proxy does not. */
  readonly guessNode: boolean;
}

/** Throws ManifestError, ApiError, KubeconfigError, Exit: all of them one line for the user. */
export async function readObjects(wanted: ObjectsWanted): Promise<Objects> {
  return wanted.manifests.length > 0 ? fromManifests(wanted) : fromApi(wanted);
}

// --- internal ---

function fromManifests({ config, manifests, log, guessNode }: ObjectsWanted): Objects {
  const own = nodeNameOf(config);
  const read = (name: string): ObjectStore => {
    const store = new ObjectStore(name);
    readManifests(manifests, store, log);
    return store;
  };
  const store = read(own);
  const source = manifests.join(", ");
  const [only, ...others] = [...store.nodes.rows.keys()];
  if (
    !guessNode ||
    config.hostnameOverride !== "" ||
    store.node !== undefined ||
    only === undefined ||
    others.length > 0
  )
    return { snapshot: store.snapshot(), nodeName: own, nodeReason: "", source };
  const silent: Log = { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} };
  const again = new ObjectStore(only);
  readManifests(manifests, again, silent);
  return { snapshot: again.snapshot(), nodeName: only, nodeReason: "the only Node in the manifests", source };
}

async function fromApi({ config, master, log }: ObjectsWanted): Promise<Objects> {
  const transport = openTransport(config, { master }, log, () => {});
  const nodeName = nodeNameOf(config);
  const store = new ObjectStore(nodeName);
  const signal = AbortSignal.timeout(120_000);
  const fill = <T>(resource: ApiResource, parse: (raw: unknown) => Parsed<T>, sink: Sink<T>): Promise<void> =>
    fillSink({ transport, resource, parse, sink, notes: new NoteLog(log), signal });
  await fill(services, parseService, store.services);
  await fill(endpointSlices, parseEndpointSlice, store.endpointSlices);
  if (config.mode === "nftables") await fill(serviceCIDRs, parseServiceCIDR, store.serviceCIDRs);
  const answer = await getNode(transport, nodeName, signal);
  if (answer.kind === "unreachable") throw new Trouble(answer.error);
  if (answer.kind === "found") store.nodes.set(nodeName, answer.node);
  return { snapshot: store.snapshot(), nodeName, nodeReason: "", source: transport.server };
}

interface Fill<T> {
  readonly transport: Transport;
  readonly resource: ApiResource;
  readonly parse: (raw: unknown) => Parsed<T>;
  readonly sink: Sink<T>;
  readonly notes: NoteLog;
  readonly signal: AbortSignal;
}

async function fillSink<T>({ transport, resource, parse, sink, notes, signal }: Fill<T>): Promise<void> {
  const each = (raw: unknown): void => {
    const { value, notes: remarks } = parse(raw);
    notes.report(objectKey(raw), remarks);
    if (value !== undefined) sink.set(objectKey(raw), value);
  };
  try {
    await listAll(transport, resource, each, signal);
  } catch (error) {
    const absent = error instanceof ApiError && error.facts.status === 404;
    if (!absent || resource.optional !== true) throw error;
  }
}
