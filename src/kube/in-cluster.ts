/** Access from inside a pod: its service account's token and CA, and the environment that the kubelet sets. */
import { existsSync } from "node:fs";
import { isIPv6 } from "node:net";
import { anonymousAccess, type ClusterAccess, KubeconfigError } from "./cluster-access.ts";

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Throws KubeconfigError outside a pod. The files are read again for every request, so a rotated token is picked up. */
export function inClusterAccess(
  env: Readonly<Record<string, string | undefined>>,
  directory = serviceAccount,
): ClusterAccess {
  const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
  const port = env["KUBERNETES_SERVICE_PORT"] ?? "";
  if (host === "" || port === "") {
    const message =
      "neither --kubeconfig nor --master is given, and this is no pod (KUBERNETES_SERVICE_HOST and _PORT are not set); --manifests takes objects from files instead";
    throw new KubeconfigError("API server", "", message);
  }
  const tokenFile = `${directory}/token`;
  if (!existsSync(tokenFile)) {
    throw new KubeconfigError(
      tokenFile,
      "",
      "no such file: the pod has no service account token (automountServiceAccountToken?)",
    );
  }
  const ca = `${directory}/ca.crt`;
  return {
    ...anonymousAccess(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`, "the service account"),
    tokenFile,
    ca: existsSync(ca) ? { kind: "file", path: ca } : undefined,
  };
}
