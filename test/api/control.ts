/** The control endpoint of the fixture: drives it from another process, over its listener or a unix socket. */
import type { FaultRule, LiveFault } from "./faults.ts";
import type { ApiObject } from "./object-store.ts";
import type { ApiServer } from "./server.ts";
import { json } from "./status.ts";

/** Body of `POST /_control/fault`. */
export type FaultCommand =
  | ({ readonly action: "next" } & FaultRule)
  | { readonly action: "live"; readonly kind: LiveFault; readonly resource?: string }
  | { readonly action: "freeze" | "thaw" | "clear" | "compact" | "restart" | "close" };

/**
 * Handler of `/_control/*`: POST apply (one object, a List or an array), POST delete ({kind, namespace, name}),
 * POST fault (FaultCommand), POST tokens ([…] or null), GET requests, GET events, GET watches.
 */
export function controlHandler(server: ApiServer): (request: Request) => Promise<Response> {
  return async (request) => {
    const action = new URL(request.url, "http://x").pathname.slice("/_control/".length);
    const body: unknown = request.method === "POST" ? await request.json() : undefined;
    switch (action) {
      case "apply":
        server.apply(body as ApiObject | ApiObject[]);
        return json({ ok: true, version: server.store.version });
      case "delete": {
        const { kind, namespace, name } = body as { kind: string; namespace?: string; name: string };
        return json({ ok: server.remove(kind, namespace ?? "default", name) });
      }
      case "fault":
        command(server, body as FaultCommand);
        return json({ ok: true });
      case "tokens":
        server.setTokens((body as string[] | null) ?? undefined);
        return json({ ok: true });
      case "requests":
        return json(server.requests);
      case "events":
        return json(server.events());
      case "watches":
        return json({ open: server.openWatches });
      default:
        return json({ error: `no control action ${action}` }, 404);
    }
  };
}

function command(server: ApiServer, command: FaultCommand): void {
  if (command.action === "next") server.fault(command);
  else if (command.action === "live") server.liveFault(command.kind, command.resource);
  else if (command.action === "freeze") server.faults.freeze();
  else if (command.action === "thaw") server.faults.thaw();
  else if (command.action === "clear") server.faults.clear();
  else if (command.action === "compact") server.store.compact();
  // after this answer went out; both cut the connection that asked
  else setTimeout(() => void (command.action === "restart" ? server.restart() : server.stop()), 20);
}
