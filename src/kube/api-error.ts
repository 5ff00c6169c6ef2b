/** What went wrong between us and the API server, in one line that says what to do about it. */

export interface ApiErrorFacts {
  /** list, watch, get, create, patch. */
  readonly verb: string;
  /** Plural resource name, with its group: `services`, `endpointslices.discovery.k8s.io`. */
  readonly resource: string;
  readonly server: string;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** Status reason of the API server (`Expired`), or the error code of the connection (`ECONNREFUSED`). */
  readonly reason: string;
  /** The server's own words; may be empty. */
  readonly detail: string;
  /** From Retry-After; 0: none. */
  readonly retryAfterMs: number;
}

/** A failed API request. `message` is one printable line. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly facts: ApiErrorFacts;

  constructor(facts: ApiErrorFacts, options?: ErrorOptions) {
    super(describe(facts), options);
    this.facts = facts;
  }

  /** The server did not answer at all: refused, reset, timed out, TLS. */
  get unreachable(): boolean {
    return this.facts.status === 0;
  }

  /** The resource version is too old: list again. */
  get expired(): boolean {
    return this.facts.status === 410 || this.facts.reason === "Expired" || this.facts.reason === "Gone";
  }
}

// --- internal ---

const connectionHints: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection is refused: does the API server run there?",
  ConnectionRefused: "the connection is refused: does the API server run there?",
  ENOTFOUND: "the host name is not known: check the server address and DNS",
  ETIMEDOUT: "no answer",
  TimeoutError: "no answer in time",
  ECONNRESET: "the connection was cut",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to the network",
  SELF_SIGNED_CERT_IN_CHAIN: "the server's certificate is not signed by the CA given: check certificate-authority",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed: give its CA as certificate-authority",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    "the server's certificate is not signed by the CA given: check certificate-authority",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    "the server's certificate is not signed by the CA given: check certificate-authority",
  CERT_HAS_EXPIRED: "the server's certificate has expired (or the clock of this machine is wrong)",
  CERT_NOT_YET_VALID: "the server's certificate is not valid yet (or the clock of this machine is wrong)",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another name: correct server or set tls-server-name",
};

function describe(facts: ApiErrorFacts): string {
  const { verb, resource, server, status } = facts;
  const start = `cannot ${verb} ${resource} at ${server}`;
  const detail = facts.detail === "" ? "" : `: ${printable(facts.detail)}`;
  switch (status) {
    case 0:
      return `${start}: ${connectionHints[facts.reason] ?? `${facts.reason}${detail}`}`;
    case 401:
      return `${start}: 401 Unauthorized: the server does not accept our credentials (expired token, wrong certificate?)`;
    case 403:
      return `${start}: 403 Forbidden${detail}; allow "${verb}" on "${resource}", e.g. by the ClusterRole system:node-proxier`;
    default:
      return `${start}: ${status} ${facts.reason}${detail}`;
  }
}

/** The server's text may come from a proxy in between: no control characters, not endless. */
function printable(text: string): string {
  return [...text.slice(0, 300)].map((c) => (c < " " || c === "\x7f" ? " " : c)).join("");
}
