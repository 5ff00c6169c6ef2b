/** A Service as the user names it, among those there are; a name that is not there is answered with what to do. */
import { nearMiss } from "./nearest.ts";
import type { Objects } from "./objects.ts";
import { Trouble } from "./trouble.ts";

/** The key `namespace/name`; a bare name counts when only one namespace has it. Throws Trouble. */
export function findService(text: string, { snapshot, source }: Pick<Objects, "snapshot" | "source">): string {
  if (snapshot.services.has(text)) return text;
  const keys = [...snapshot.services.keys()];
  const named = text.includes("/") ? [] : keys.filter((key) => key.endsWith(`/${text}`));
  const [only, ...others] = named;
  if (only !== undefined && others.length === 0) return only;
  if (only !== undefined) throw new Trouble(`more than one Service is named ${text}: ${some(named)}; say which`);
  const near = nearMiss(text, keys);
  const hint = near === undefined ? `there are: ${some(keys)}` : `did you mean ${near}?`;
  throw new Trouble(
    `no Service ${text} in ${source} (${hint}); headless and ExternalName Services, and those with the label service.kubernetes.io/service-proxy-name, have no rules`,
  );
}

// --- internal ---

function some(keys: readonly string[]): string {
  if (keys.length === 0) return "none";
  const shown = keys.slice(0, 5).join(", ");
  return keys.length > 5 ? `${shown} and ${keys.length - 5} more` : shown;
}
