/**
 * The API server fixture as a pod meets it: TLS, and a bearer token instead of a client certificate.
 * `bun test/install/token-api.ts DIR TOKEN OBJECTS`: port 6443, CA in DIR/ca.crt, control socket DIR/control; prints its URL.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { parseAllDocuments } from "yaml";
import { makeAuthority, serverCertificate } from "../api/certificates.ts";
import { controlHandler } from "../api/control.ts";
import { startApiServer } from "../api/server.ts";

const [dir = "", token = "", objects = ""] = process.argv.slice(2);
const authority = makeAuthority("kp-test-ca", dir);
const server = startApiServer({ port: 6443, tls: serverCertificate(authority, ["127.0.0.1"]), tokens: [token] });
for (const document of parseAllDocuments(readFileSync(objects, "utf8"))) server.apply(document.toJS());
Bun.serve({ unix: `${dir}/control`, development: false, fetch: controlHandler(server) });
writeFileSync(`${dir}/ca.crt`, authority.cert);
console.log(server.url);
