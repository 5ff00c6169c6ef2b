/** Checks PEM texts before Bun sees them: it reports a bad one only as "Was there a typo in the url or port?". */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { KubeconfigError, type Secret } from "./cluster-access.ts";

/** Reads a secret. `field` names it in the KubeconfigError that a missing file throws. */
export function readSecret(secret: Secret, source: string, field: string): string {
  if (secret.kind === "inline") return secret.text;
  try {
    return readFileSync(secret.path, "utf8");
  } catch (cause) {
    const code = (cause as { code?: string }).code ?? String(cause);
    throw new KubeconfigError(
      source,
      field,
      `cannot read ${secret.path}: ${code === "ENOENT" ? "no such file" : code}`,
      { cause },
    );
  }
}

/** Every certificate of the text must parse, and there must be one. Throws KubeconfigError. */
export function checkCertificates(text: string, source: string, field: string): void {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new KubeconfigError(source, field, "holds no PEM certificate");
  for (const [i, block] of blocks.entries()) {
    try {
      new X509Certificate(block);
    } catch (cause) {
      throw new KubeconfigError(source, field, `certificate ${i + 1} is not valid PEM`, { cause });
    }
  }
}

/** The key must parse and belong to the first certificate. Throws KubeconfigError. */
export function checkKeyPair(cert: string, key: string, source: string): void {
  checkCertificates(cert, source, "client-certificate");
  let parsed: ReturnType<typeof createPrivateKey>;
  try {
    parsed = createPrivateKey(key);
  } catch (cause) {
    throw new KubeconfigError(source, "client-key", "is not a valid PEM private key", { cause });
  }
  if (!new X509Certificate(cert).checkPrivateKey(parsed)) {
    throw new KubeconfigError(source, "client-key", "does not belong to the client-certificate");
  }
}
