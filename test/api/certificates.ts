/** Throw-away certificate authorities, server and client certificates for tests, made with openssl. */
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface KeyPair {
  readonly cert: string;
  readonly key: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface Authority extends KeyPair {
  readonly directory: string;
}

let serial = 0;

/** A new self-signed CA in a new directory below `parent` (default: the system's temporary directory). */
export function makeAuthority(name = "test-ca", parent = tmpdir()): Authority {
  mkdirSync(parent, { recursive: true });
  const directory = mkdtempSync(join(parent, "kp-ca-"));
  const [certFile, keyFile] = [join(directory, "ca.crt"), join(directory, "ca.key")];
  openssl(
    ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"].concat(
      ["-keyout", keyFile, "-out", certFile, "-subj", `/CN=${name}`],
      ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign"],
    ),
  );
  return { directory, certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}

/** A server certificate for the given names and addresses, e.g. `["127.0.0.1", "localhost"]`. */
export function serverCertificate(
  authority: Authority,
  hosts: readonly string[] = ["127.0.0.1", "localhost"],
): KeyPair {
  const names = hosts.map((host) => (/^[\d.]+$|:/.test(host) ? `IP:${host}` : `DNS:${host}`)).join(",");
  return sign(authority, "/CN=kube-apiserver", `subjectAltName=${names}\nextendedKeyUsage=serverAuth\n`);
}

/** A client certificate; groups become O= entries. */
export function clientCertificate(authority: Authority, user: string, groups: readonly string[] = []): KeyPair {
  return sign(
    authority,
    `${groups.map((group) => `/O=${group}`).join("")}/CN=${user}`,
    "extendedKeyUsage=clientAuth\n",
  );
}

// --- internal ---

function sign(authority: Authority, subject: string, extensions: string): KeyPair {
  const base = join(authority.directory, `pair-${++serial}`);
  const [certFile, keyFile] = [`${base}.crt`, `${base}.key`];
  writeFileSync(`${base}.ext`, extensions);
  openssl(
    ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", subject].concat([
      "-keyout",
      keyFile,
      "-out",
      `${base}.csr`,
    ]),
  );
  openssl(
    ["x509", "-req", "-in", `${base}.csr`, "-CA", authority.certFile, "-CAkey", authority.keyFile].concat(
      ["-set_serial", String(Date.now() * 1000 + serial), "-days", "30"],
      ["-extfile", `${base}.ext`, "-out", certFile],
    ),
  );
  return { certFile, keyFile, cert: readFileSync(certFile, "utf8"), key: readFileSync(keyFile, "utf8") };
}

function openssl(args: readonly string[]): void {
  const done = Bun.spawnSync(["openssl", ...args], { stdout: "ignore", stderr: "pipe", timeout: 20_000 });
  if (!done.success) throw new Error(`openssl ${args[0]} failed: ${done.stderr.toString()}`);
}
