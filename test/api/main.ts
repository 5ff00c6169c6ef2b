/**
 * The API server fixture as a process: `bun test/api/main.ts --port 0 --kubeconfig-out F [--objects FILE.yaml]…
 * [--listen 127.0.0.1] [--control-socket PATH] [--tls-dir DIR] [--token T]… [--bookmark-ms N]`. Prints its URL on one line.
 * With --tls-dir it makes a CA and certificates there and the kubeconfig uses a client certificate.
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { parseAllDocuments } from "yaml";
import { clientCertificate, makeAuthority, serverCertificate } from "./certificates.ts";
import { controlHandler } from "./control.ts";
import type { ApiObject } from "./object-store.ts";
import { startApiServer } from "./server.ts";

const { values } = parseArgs({
  options: {
    port: { type: "string", default: "0" },
    listen: { type: "string", default: "127.0.0.1" },
    "kubeconfig-out": { type: "string" },
    objects: { type: "string", multiple: true, default: [] },
    "control-socket": { type: "string" },
    "tls-dir": { type: "string" },
    token: { type: "string", multiple: true, default: [] },
    "bookmark-ms": { type: "string", default: "60000" },
  },
});

const objects = values.objects.flatMap((file) =>
  parseAllDocuments(readFileSync(file, "utf8")).flatMap((document) => {
    if (document.errors[0] !== undefined) throw new Error(`${file}: ${document.errors[0].message}`);
    const content = document.toJS() as ApiObject | null;
    return content === null ? [] : [content];
  }),
);

const authority = values["tls-dir"] === undefined ? undefined : makeAuthority("kp-test-ca", values["tls-dir"]);
const client = authority && clientCertificate(authority, "system:kube-proxy", ["system:nodes"]);
const server = startApiServer({
  port: Number(values.port),
  listen: values.listen,
  bookmarkMs: Number(values["bookmark-ms"]),
  ...(authority === undefined
    ? {}
    : { tls: serverCertificate(authority, [values.listen, "localhost"]), clientCA: authority.cert }),
  ...(values.token.length > 0 ? { tokens: values.token } : {}),
});
for (const object of objects) server.apply(object);

const control =
  values["control-socket"] === undefined
    ? undefined
    : Bun.serve({ unix: values["control-socket"], development: false, fetch: controlHandler(server) });

if (values["kubeconfig-out"] !== undefined) {
  const token = values.token[0];
  server.writeKubeconfig(
    { ...(authority && client ? { ca: authority.cert, client } : {}), ...(token === undefined ? {} : { token }) },
    values["kubeconfig-out"],
  );
}
console.log(server.url);

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  process.on(signal, () => {
    void control?.stop(true);
    void server.stop();
    process.exit(0);
  });
}
