/** What the rules can tell about where a packet comes from. */
import type { Context } from "../model/context.ts";
import { cidrContains } from "../model/ip.ts";
import { type Here, isLocal, type Source } from "./packet.ts";

export interface Origin {
  /** From a pod, as detectLocalMode tells it; undefined: it cannot tell. */
  readonly pod: boolean | undefined;
  /** The source address is one of this machine's. */
  readonly local: boolean;
  /** How pods are told, as part of a sentence. */
  readonly why: string;
}

export function originOf(from: Source, context: Context, here: Here): Origin {
  const local = from.kind === "node" || isLocal(from.ip, here);
  const { detectLocal } = context;
  switch (detectLocal.kind) {
    case "none":
      return { pod: undefined, local, why: `no ${context.family.name} range of pods is configured` };
    case "cidr": {
      const pod = cidrContains(detectLocal.cidr, from.ip);
      return { pod, local, why: `${from.ip} is ${pod ? "in" : "outside"} ${detectLocal.cidr}` };
    }
    case "bridge":
    case "prefix": {
      const device =
        detectLocal.kind === "bridge" ? `bridge ${detectLocal.name}` : `an interface ${detectLocal.prefix}*`;
      const pod = from.kind === "pod";
      return { pod, local, why: pod ? `pods come in by ${device}` : `it does not come in by ${device}` };
    }
  }
}
