/** Where objects come from: an API server, or folders of manifests. */

import type { RunOptions } from "../cli/load.ts";
import { version } from "../cli/version.ts";
import type { Config } from "../config/config.ts";
import { KubeconfigError } from "../kube/cluster-access.ts";
import { startInformers } from "../kube/informers.ts";
import { loadAccess } from "../kube/kubeconfig.ts";
import { ManifestError } from "../kube/manifest-objects.ts";
import { startManifests } from "../kube/manifests.ts";
import type { ObjectStore } from "../kube/object-store.ts";
import { type RequestReport, Transport } from "../kube/transport.ts";
import type { RestRequest } from "../metrics/record.ts";
import type { Log } from "../model/log.ts";
import { Exit } from "./exit.ts";

export interface Feed {
  /** Resolves when the first lists are complete. */
  readonly ready: Promise<void>;
  /** Milliseconds since the epoch of the last answer; undefined: none yet, or no API server. */
  lastContact(): number | undefined;
}

/** Access to the API server of the configuration; Exit with the user's mistake when there is none. */
export function openTransport(
  config: Config,
  options: Pick<RunOptions, "master">,
  log: Log,
  onRequest: (request: RestRequest) => void,
  onHeaders?: (headers: Headers) => void,
): Transport {
  const { kubeconfig, qps, burst } = config.clientConnection;
  try {
    return new Transport(loadAccess(kubeconfig, options.master), {
      log,
      userAgent: `kube-proxy/${version} (linux/${process.arch}) bun/${Bun.version}`,
      qps,
      burst,
      onRequest: (report) => onRequest(restRequest(report)),
      ...(onHeaders ? { onHeaders } : {}),
    });
  } catch (error) {
    if (error instanceof KubeconfigError) throw new Exit(1, error.message, { cause: error });
    throw error;
  }
}

export function feedFromApi(
  transport: Transport,
  store: ObjectStore,
  nodeName: string,
  config: Config,
  log: Log,
  signal: AbortSignal,
): Feed {
  const informers = startInformers({
    transport,
    store,
    nodeName,
    serviceCIDRs: config.mode === "nftables",
    log,
    signal,
  });
  return {
    ready: informers.ready,
    lastContact: () => Math.max(0, ...Object.values(informers.contacts())) || undefined,
  };
}

export function feedFromManifests(paths: readonly string[], store: ObjectStore, log: Log, signal: AbortSignal): Feed {
  try {
    const source = startManifests({ paths, store, log, signal });
    return { ready: source.ready, lastContact: () => undefined };
  } catch (error) {
    if (error instanceof ManifestError) throw new Exit(1, error.message, { cause: error });
    throw error;
  }
}

// --- internal ---

function restRequest({ method, host, code, seconds, requestBytes }: RequestReport): RestRequest {
  const status = Number(code);
  return {
    method,
    host,
    code: Number.isInteger(status) ? status : "<error>",
    milliseconds: seconds * 1000,
    bodyBytes: requestBytes,
  };
}
